"""What `levada configs` does."""

import argparse
from typing import Final

from levada.cli.configs.entities import (
    CLIENTS,
    IPS,
    USERS,
    Entities,
    check_for_alter,
    check_for_describe,
    entities_of,
)
from levada.cli.configs.flags import check, settings_to_add, settings_to_delete
from levada.cli.kit.connecting import admin_for
from levada.cli.kit.refusals import WrongUsage, changing

WITH_QUOTAS: Final = (USERS, CLIENTS, IPS)


def run(arguments: argparse.Namespace) -> int:
    check(arguments)
    entities = entities_of(arguments)
    if arguments.describe:
        check_for_describe(entities)
        _describe(arguments, entities)
    else:
        check_for_alter(entities)
        _alter(arguments, entities)
    return 0


def _describe(arguments: argparse.Namespace, entities: Entities) -> None:
    from levada.cli.configs import quotas, resources

    resources.check_name(entities)
    with admin_for(arguments) as admin:
        if entities.type in WITH_QUOTAS:
            quotas.describe(admin, entities, as_json=arguments.json)
        else:
            resources.describe(admin, entities, is_all=arguments.all, as_json=arguments.json)


def _alter(arguments: argparse.Namespace, entities: Entities) -> None:
    from levada.cli.configs import quotas, resources

    added, deleted = settings_to_add(arguments), settings_to_delete(arguments)
    if both := [key for key in deleted if key in added]:
        raise WrongUsage(f"{', '.join(both)} cannot be set and deleted at the same time")
    # What can be refused without a broker is, before anything is changed.
    changes = quotas.changes_of(entities, added, deleted) if entities.type in WITH_QUOTAS else None
    one = f"{entities.type[:-1]} {entities.name}"
    whose = one if entities.name else f"all {entities.type}"
    with admin_for(arguments) as admin, changing(f"settings of {whose} were being changed"):
        if changes is None:
            resources.alter(admin, entities, added, deleted)
        else:
            quotas.alter(admin, entities, changes)
        if entities.name:
            print(f"Completed updating config for {one}.")
        else:
            print(f"Completed updating default config for {entities.type} in the cluster.")
