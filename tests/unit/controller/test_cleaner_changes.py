"""Changes of the keys of cleaning while a broker runs: what is refused, in Kafka's words, and on which level."""

from collections.abc import Mapping

import pytest

from levada.controller.config_changes import full_changes, incremental_changes
from levada.controller.decision import Defaults
from levada.model.error_codes import ErrorCode
from levada.model.errors import InvalidRequest
from levada.protocol.messages.alter_configs import AlterableConfig as FullConfig
from levada.protocol.messages.alter_configs import AlterConfigsRequest
from levada.protocol.messages.alter_configs import AlterConfigsResource as FullResource
from levada.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.unit.controller.clusters import Cluster

BROKER = 4
ALL = ""
SET, DELETE = 0, 1
THREADS, MEMORY = "log.cleaner.threads", "log.cleaner.dedupe.buffer.size"
MEMORY_TEXT = "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."
NOTHING: Mapping[str, str] = {}


def wrapped(text: str) -> str:
    return (
        f"Invalid value org.apache.kafka.common.config.ConfigException: Log cleaner threads cannot be {text} "
        "for configuration Invalid dynamic configuration"
    )


@pytest.mark.parametrize("kind", ["broker", "cluster"])
@pytest.mark.parametrize(
    ("now", "wanted", "text"),
    [
        ("1", "2", None),
        ("1", "3", wrapped("increased to more than double the current value 1")),
        ("4", "8", None),
        ("4", "9", wrapped("increased to more than double the current value 4")),
        ("4", "2", None),
        ("4", "1", wrapped("reduced to less than half the current value 4")),
        ("5", "2", None),
        ("3", "1", None),
        ("1", "0", "log.cleaner.threads must be at least 1, not 0"),
    ],
)
def test_threads_at_most_halve_or_double(kind: str, now: str, wanted: str, text: str | None) -> None:
    def change() -> dict[str, str | None]:
        return incremental_changes(kind, {}, [(THREADS, SET, wanted)], {THREADS: now})

    if text is None:
        assert change() == {THREADS: wanted}
        return
    with pytest.raises(InvalidRequest) as caught:
        change()
    assert (caught.value.code, str(caught.value)) == (ErrorCode.INVALID_REQUEST, text)


def test_a_key_that_goes_is_a_change_to_what_is_below_it() -> None:
    with pytest.raises(InvalidRequest, match="less than half the current value 8"):
        incremental_changes("broker", {THREADS: "8"}, [(THREADS, DELETE, None)])
    with pytest.raises(InvalidRequest, match="less than half the current value 8"):
        full_changes("broker", {THREADS: "8"}, {})
    assert incremental_changes("broker", {THREADS: "8"}, [(THREADS, DELETE, None)], NOTHING, {THREADS: "4"}) == {
        THREADS: None
    }


def test_the_default_of_all_brokers_changes_nothing_for_one_with_its_own() -> None:
    assert incremental_changes("cluster", {}, [(THREADS, SET, "100")], NOTHING, {THREADS: "2"}) == {THREADS: "100"}
    with pytest.raises(InvalidRequest, match="double the current value 2"):
        incremental_changes("broker", {}, [(THREADS, SET, "100")], NOTHING, {THREADS: "2"})


@pytest.mark.parametrize(
    ("current", "operations", "others"),
    [
        ({}, [(MEMORY, SET, "1048576")], {}),
        ({}, [(MEMORY, SET, "-1")], {}),
        ({}, [(MEMORY, SET, "2097152")], {THREADS: "2"}),
        ({MEMORY: "2097152"}, [(THREADS, SET, "2")], {}),
        ({MEMORY: "2097160", THREADS: "2"}, [(THREADS, SET, "3")], {}),
    ],
)
@pytest.mark.parametrize("kind", ["broker", "cluster"])
def test_each_thread_has_more_than_a_megabyte(
    kind: str,
    current: dict[str, str],
    operations: list[tuple[str, int, str | None]],
    others: dict[str, str],
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        incremental_changes(kind, current, operations, NOTHING, others)
    assert (caught.value.code, str(caught.value)) == (ErrorCode.INVALID_REQUEST, MEMORY_TEXT)


def test_two_keys_that_go_together_may_change_together() -> None:
    operations = [(THREADS, SET, "2"), (MEMORY, SET, "3000000")]
    assert incremental_changes("broker", {MEMORY: "1500000"}, operations) == {THREADS: "2", MEMORY: "3000000"}


def test_topics_and_groups_have_no_such_rules() -> None:
    assert incremental_changes("topic", {}, [("retention.ms", SET, "5")], {THREADS: "0"}) == {"retention.ms": "5"}


class Threads:
    """Broker 7 of a cluster and how many threads it cleans with."""

    def __init__(self) -> None:
        self._cluster = Cluster(7)
        self._cluster.defaults = Defaults(node_id=7, given={THREADS: "2"})

    def set(self, name: str, threads: int) -> int:
        configs = [AlterableConfig(name=THREADS, config_operation=SET, value=str(threads))]
        resource = AlterConfigsResource(resource_type=BROKER, resource_name=name, configs=configs)
        answer = self._cluster.do(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
        code: int = answer.responses[0].error_code
        return code

    def replace(self, name: str, configs: dict[str, str]) -> int:
        given = [FullConfig(name=key, value=value) for key, value in configs.items()]
        resource = FullResource(resource_type=BROKER, resource_name=name, configs=given)
        answer = self._cluster.do(AlterConfigsRequest(resources=[resource], validate_only=False))
        code: int = answer.responses[0].error_code
        return code

    @property
    def stored(self) -> dict[str, str]:
        image = self._cluster.image
        return {name: image.config_of(BROKER, name).get(THREADS, "") for name in (ALL, "7")}


def test_each_level_is_held_against_the_other() -> None:
    threads = Threads()
    assert threads.set(ALL, 4) == ErrorCode.NONE
    assert threads.set("7", 9) == ErrorCode.INVALID_REQUEST
    assert threads.set("7", 8) == ErrorCode.NONE, "twice what all brokers have"
    assert threads.set(ALL, 100) == ErrorCode.NONE, "this one has its own"
    assert threads.replace("7", {}) == ErrorCode.INVALID_REQUEST, "it would have 100"
    assert threads.replace(ALL, {}) == ErrorCode.NONE
    assert threads.replace("7", {}) == ErrorCode.INVALID_REQUEST, "from 8 to the 2 it was started with"
    assert threads.replace("7", {THREADS: "4"}) == ErrorCode.NONE
    assert threads.replace("7", {}) == ErrorCode.NONE


def test_nothing_is_kept_of_a_change_that_is_refused() -> None:
    threads = Threads()
    assert threads.set("7", 3) == ErrorCode.NONE
    assert threads.set("7", 99) == ErrorCode.INVALID_REQUEST
    assert threads.set(ALL, 0) == ErrorCode.NONE, "no harm to one with its own, and Kafka does not look further"
    assert threads.stored == {ALL: "0", "7": "3"}
