"""Whether the topics of a pipeline are there, or will be when they are written to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from levada.client.errors import KafkaError
from levada.spark.pipeline.problems import Problem, one_line, unknown

if TYPE_CHECKING:
    from levada import Admin

ANSWER_MS: Final = 3_500
AUTO_CREATE: Final = "auto.create.topics.enable"


@dataclass(slots=True)
class Findings:
    """Problems keep a pipeline from running; notes do not."""

    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)


def check_topics(bootstrap: str, read: Mapping[str, str], written: Mapping[str, str], findings: Findings) -> None:
    """Whether topics are there, or will be; each is given with its place in the file."""
    if not read and not written:
        return
    # Loaded only where a broker is to be asked.
    from levada import Admin

    try:
        with Admin(bootstrap) as admin:
            there = set(admin.list_topics(timeout_ms=ANSWER_MS))
            are_made = _makes_topics(admin)
    except (KafkaError, OSError, TimeoutError) as error:
        findings.problems.append(Problem("bootstrap", f"cannot reach {bootstrap}: {one_line(str(error))}"))
        return
    for topic, where in read.items():
        if topic not in there:
            findings.problems.append(Problem(where, unknown("topic", topic, there)))
    for topic, where in written.items():
        if topic in there:
            continue
        if are_made:
            findings.notes.append(Problem(where, f"topic {topic!r} is not there yet; the broker will make it"))
        else:
            findings.problems.append(
                Problem(where, f"there is no topic {topic!r}, and the broker makes none by itself")
            )


def _makes_topics(admin: "Admin") -> bool:
    """Whether brokers make topics that are written to; they do if we may not ask."""
    from levada.client.admin import ConfigResource

    broker = admin.describe_cluster(timeout_ms=ANSWER_MS).brokers[0]
    resource = ConfigResource.broker(broker.broker_id)
    entries: Any = admin.describe_configs([resource], keys=[AUTO_CREATE], timeout_ms=ANSWER_MS)
    entry = entries[resource].get(AUTO_CREATE) if resource not in entries.errors else None
    return entry is None or entry.value != "false"
