"""The values that the admin client takes and gives."""

import asyncio
import hashlib
import hmac

import pytest

import levada.client.admin
from levada.client.admin import (
    AclOperation,
    Admin,
    ConfigKind,
    ConfigResource,
    ConfigSource,
    GroupState,
    Outcomes,
    ScramMechanism,
    ScramUpsertion,
    TopicId,
)
from levada.client.admin.kinds import NOT_ASKED, authorized_operations
from levada.client.admin.scram import salted_password
from levada.client.errors import KafkaError


def test_every_operation_has_a_docstring() -> None:
    operations = [name for name in dir(levada.client.admin.Admin) if not name.startswith("_")]
    assert len(operations) > 40
    for name in operations:
        assert getattr(levada.client.admin.Admin, name).__doc__, name


def test_a_failed_item_does_not_pass_for_one_without_a_result() -> None:
    error = KafkaError("b: no")
    outcomes: Outcomes[str, None] = Outcomes({"a": None, "b": error})
    assert ("a" in outcomes, "b" in outcomes, "c" in outcomes, len(outcomes)) == (True, True, False, 2)
    assert outcomes.get("a") is None
    for take in (lambda: outcomes["b"], lambda: outcomes.get("b"), lambda: list(outcomes.values())):
        with pytest.raises(KafkaError, match="b: no"):
            take()
    with pytest.raises(KeyError):
        outcomes["c"]
    Outcomes({"a": 1}).raise_any()


def test_words_and_numbers_of_newer_brokers_are_unknown() -> None:
    assert GroupState("Levitating") == GroupState.UNKNOWN
    assert GroupState("stable") == GroupState.STABLE
    assert ConfigSource(99) == ConfigSource.UNKNOWN


def test_authorized_operations_are_bits() -> None:
    assert authorized_operations(NOT_ASKED) is None
    assert authorized_operations(0) == frozenset()
    assert authorized_operations(1 << 3 | 1 << 10) == frozenset({AclOperation.READ, AclOperation.DESCRIBE_CONFIGS})


def test_an_id_reads_as_kafka_writes_it() -> None:
    topic_id = TopicId(bytes(range(16)))
    assert str(topic_id) == "AAECAwQFBgcICQoLDA0ODw"
    assert TopicId.parse(str(topic_id)) == topic_id
    with pytest.raises(ValueError):
        TopicId.parse("orders")


@pytest.mark.parametrize("mechanism", [ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512])
def test_a_password_is_salted_as_rfc_5802_has_it(mechanism: ScramMechanism) -> None:
    digest = {ScramMechanism.SCRAM_SHA_256: hashlib.sha256, ScramMechanism.SCRAM_SHA_512: hashlib.sha512}[mechanism]
    block = hmac.new(b"pencil", b"salt" + b"\0\0\0\1", digest).digest()
    expected = int.from_bytes(block, "big")
    for _ in range(9):
        block = hmac.new(b"pencil", block, digest).digest()
        expected ^= int.from_bytes(block, "big")
    assert salted_password("pencil", mechanism, b"salt", 10) == expected.to_bytes(len(block), "big")


def test_a_password_is_not_printed() -> None:
    assert "secret" not in repr(ScramUpsertion("alice", "secret"))


def test_a_kind_of_configuration_may_be_a_number_if_there_is_one_of_that_number() -> None:
    assert str(ConfigResource(2, "t")) == "topic 't'"  # type: ignore[arg-type]
    assert str(ConfigResource(99, "t")) == "unknown 't'"  # type: ignore[arg-type]
    assert ConfigResource(2, "t") == ConfigResource(ConfigKind.TOPIC, "t")  # type: ignore[arg-type]


@pytest.mark.parametrize("call", ["describe_configs", "incremental_alter_configs", "alter_configs"])
def test_a_kind_of_configuration_that_there_is_not_is_refused(call: str) -> None:
    strange = ConfigResource(99, "t")  # type: ignore[arg-type]

    async def scenario() -> None:
        async with Admin("localhost:1") as admin:
            await getattr(admin, call)({strange: {}})

    with pytest.raises(TypeError, match="ConfigResource"):
        asyncio.run(scenario())
