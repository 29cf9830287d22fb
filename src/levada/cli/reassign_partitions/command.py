"""The actions of `levada reassign-partitions`."""

import argparse
from typing import TYPE_CHECKING

from levada.cli.kit.connecting import admin_for
from levada.cli.kit.files import read_json
from levada.cli.reassign_partitions.flags import PLAN_FLAG, TOPICS_FLAG, check

if TYPE_CHECKING:
    from levada.cli.reassign_partitions.plan import ReassignmentPlan


def run(arguments: argparse.Namespace) -> int:
    check(arguments)
    # Imported only here: they load the clients, which --help has no use for.
    from levada.cli.reassign_partitions import actions
    from levada.cli.reassign_partitions.plan import check_plan, read_topics

    match arguments.action:
        case "generate":
            path = arguments.topics_to_move_json_file
            topics = read_topics(read_json(path, TOPICS_FLAG), f"{TOPICS_FLAG} {path}")
            with admin_for(arguments) as admin:
                actions.generate(admin, topics, arguments)
        case "execute":
            plan = _plan(arguments)
            check_plan(plan)
            with admin_for(arguments) as admin:
                actions.execute(admin, plan, arguments)
        case "verify":
            plan = _plan(arguments)
            with admin_for(arguments) as admin:
                actions.verify(admin, plan, arguments)
        case "cancel":
            plan = _plan(arguments)
            with admin_for(arguments) as admin:
                actions.cancel(admin, plan, arguments)
        case "list":
            with admin_for(arguments) as admin:
                actions.list_ongoing(admin, arguments)
    return 0


def _plan(arguments: argparse.Namespace) -> "ReassignmentPlan":
    from levada.cli.reassign_partitions.plan import read_plan

    path = arguments.reassignment_json_file
    return read_plan(read_json(path, PLAN_FLAG), f"{PLAN_FLAG} {path}")
