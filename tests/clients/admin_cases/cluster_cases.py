"""The cluster: its brokers, features and quorum; quotas, access rules and passwords."""

import pytest

from levada.client.admin import (
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    Admin,
    FeatureUpdate,
    PatternType,
    QuotaFilter,
    ResourceType,
    ScramCredential,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
    VersionRange,
    quota_entity,
)
from levada.client.errors import KafkaError
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey
from tests.clients.admin_cases.case import Cases, Target, until

CLUSTER_CASES = Cases()


@CLUSTER_CASES
async def the_cluster_is_described(admin: Admin, target: Target) -> None:
    found = await admin.describe_cluster()
    assert found.cluster_id
    assert found.controller_id == target.broker_id
    assert found.authorized_operations is None
    (only,) = found.brokers
    assert (only.broker_id, f"{only.host}:{only.port}") == (target.broker_id, target.bootstrap)
    assert (only.rack, only.is_fenced) == (None, False)
    more = await admin.describe_cluster(include_authorized_operations=True, include_fenced_brokers=True)
    assert more.authorized_operations is not None
    assert AclOperation.CREATE in more.authorized_operations
    assert more.brokers == found.brokers


@CLUSTER_CASES
async def features_are_described(admin: Admin, target: Target) -> None:
    found = await admin.describe_features()
    assert found.finalized["transaction.version"].highest == 2
    assert found.supported["transaction.version"].lowest == 0
    assert found.finalized["metadata.version"].highest <= found.supported["metadata.version"].highest
    assert found.finalized_epoch is not None
    assert (await admin.describe_features(broker=target.broker_id)).supported == found.supported
    with pytest.raises(KafkaError, match="broker 77"):
        await admin.describe_features(broker=77)


@CLUSTER_CASES
async def the_requests_served_are_described(admin: Admin, target: Target) -> None:
    found = await admin.describe_api_versions()
    assert list(found) == [target.broker_id]
    assert found[target.broker_id][ApiKey.API_VERSIONS] == VersionRange(0, 4)
    some = await admin.describe_api_versions([target.broker_id, 77])
    assert list(some.done) == [target.broker_id]
    assert some.errors[77].code == ErrorCode.BROKER_NOT_AVAILABLE


@CLUSTER_CASES.needing(ApiKey.UPDATE_FEATURES)
async def features_that_no_broker_has_are_not_updated(admin: Admin, target: Target) -> None:
    updated = await admin.update_features({"no.such.feature": FeatureUpdate(3)}, validate_only=True)
    assert [error.code for error in updated.errors.values()] == [ErrorCode.INVALID_UPDATE_VERSION]
    assert "no.such.feature" in str(updated.errors["no.such.feature"])
    level = (await admin.describe_features()).finalized["transaction.version"].highest
    (await admin.update_features({"transaction.version": FeatureUpdate(level)}, validate_only=True)).raise_any()


@CLUSTER_CASES
async def an_unknown_broker_is_not_unregistered(admin: Admin, target: Target) -> None:
    with pytest.raises(KafkaError, match="broker 77") as refused:
        await admin.unregister_broker(77)
    assert refused.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED


@CLUSTER_CASES.needing(ApiKey.DESCRIBE_QUORUM)
async def the_quorum_is_described(admin: Admin, target: Target) -> None:
    found = await admin.describe_quorum()
    assert found.leader_id == target.broker_id
    (voter,) = found.voters
    assert voter.replica_id == target.broker_id
    assert voter.log_end_offset >= found.high_watermark > 0
    # Apache's controllers have a listener of their own.
    assert [name for name, _, _ in found.listeners[target.broker_id]] in (["CONTROLLER"], ["PLAINTEXT"])


@CLUSTER_CASES.needing(ApiKey.ALTER_CLIENT_QUOTAS)
async def quotas_are_set_and_taken_away(admin: Admin, target: Target) -> None:
    alice, everyone = quota_entity(user="alice"), quota_entity(user=None, client_id="loader")
    odd = quota_entity(ip="not an address")
    changes = {alice: {"producer_byte_rate": 1e6}, everyone: {"consumer_byte_rate": 2e6}, odd: {"no.such": 1.0}}
    checked = await admin.alter_client_quotas(changes, validate_only=True)
    assert list(checked.errors) == [odd]
    (await admin.alter_client_quotas({alice: changes[alice], everyone: changes[everyone]})).raise_any()

    async def is_told() -> bool:
        return await admin.describe_client_quotas() == {
            alice: {"producer_byte_rate": 1e6},
            everyone: {"consumer_byte_rate": 2e6},
        }

    await until("the quotas are told", is_told)
    assert await admin.describe_client_quotas([QuotaFilter("user", "alice")]) == {alice: {"producer_byte_rate": 1e6}}
    assert list(await admin.describe_client_quotas([QuotaFilter("user", is_default=True)])) == [everyone]
    assert list(await admin.describe_client_quotas([QuotaFilter("user")], strict=True)) == [alice]
    taken = {alice: {"producer_byte_rate": None}, everyone: {"consumer_byte_rate": None}}
    (await admin.alter_client_quotas(taken)).raise_any()


@CLUSTER_CASES.needing(ApiKey.DESCRIBE_CLIENT_QUOTAS)
async def quotas_of_an_unknown_user_are_none(admin: Admin, target: Target) -> None:
    assert await admin.describe_client_quotas([QuotaFilter("user", "absent")]) == {}


@CLUSTER_CASES.needing(ApiKey.CREATE_ACLS)
async def access_rules_are_made_and_deleted(admin: Admin, target: Target) -> None:
    reader = Acl(ResourceType.TOPIC, "orders", "User:reader", AclOperation.READ)
    prefixed = Acl(
        ResourceType.GROUP,
        "orders-",
        "User:reader",
        AclOperation.ALL,
        AclPermission.DENY,
        PatternType.PREFIXED,
        "10.0.0.1",
    )
    odd = Acl(ResourceType.CLUSTER, "not the cluster", "User:reader", AclOperation.ALTER)
    created = await admin.create_acls([reader, prefixed, odd])
    assert created[reader] is None
    assert list(created.done) == [reader, prefixed]
    assert [error.code for error in created.errors.values()] == [ErrorCode.INVALID_REQUEST]

    async def is_told() -> bool:
        found = await admin.describe_acls(AclFilter(principal="User:reader"))
        return sorted(found, key=str) == sorted([reader, prefixed], key=str)

    await until("the rules are told", is_told)
    of_topics = AclFilter(ResourceType.TOPIC, principal="User:reader")
    rest, none = AclFilter(principal="User:reader", permission=AclPermission.DENY), AclFilter(principal="User:absent")
    deleted = await admin.delete_acls([of_topics, rest, none])
    assert [list(outcome) for outcome in deleted.values()] == [[reader], [prefixed], []]
    for outcome in deleted.values():
        outcome.raise_any()


@CLUSTER_CASES.needing(ApiKey.DESCRIBE_ACLS)
async def rules_that_were_not_made_are_not_there(admin: Admin, target: Target) -> None:
    assert await admin.describe_acls(AclFilter(principal="User:absent")) == []


@CLUSTER_CASES.needing(ApiKey.DELETE_ACLS)
async def rules_that_were_not_made_are_not_deleted(admin: Admin, target: Target) -> None:
    none = AclFilter(principal="User:absent")
    assert list((await admin.delete_acls([none]))[none]) == []


@CLUSTER_CASES.needing(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
async def passwords_are_set_and_deleted(admin: Admin, target: Target) -> None:
    weak = ScramMechanism.SCRAM_SHA_256
    altered = await admin.alter_user_scram_credentials(
        [
            ScramUpsertion("alice", "secret"),
            ScramUpsertion("bob", "secret", weak, iterations=8_192),
            ScramUpsertion("carol", "secret", iterations=1),
            ScramDeletion("dave", weak),
        ]
    )
    assert list(altered.done) == ["alice", "bob"]
    assert {user: error.code for user, error in altered.errors.items()} == {
        "carol": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "dave": ErrorCode.RESOURCE_NOT_FOUND,
    }

    async def is_told() -> bool:
        return {"alice", "bob"} <= set(await admin.describe_user_scram_credentials())

    await until("the passwords are told", is_told)
    found = await admin.describe_user_scram_credentials(["alice", "bob", "absent"])
    assert found.done == {
        "alice": (ScramCredential(ScramMechanism.SCRAM_SHA_512, 4_096),),
        "bob": (ScramCredential(weak, 8_192),),
    }
    assert [error.code for error in found.errors.values()] == [ErrorCode.RESOURCE_NOT_FOUND]
    gone = [ScramDeletion("alice", ScramMechanism.SCRAM_SHA_512), ScramDeletion("bob", weak)]
    (await admin.alter_user_scram_credentials(gone)).raise_any()


@CLUSTER_CASES.needing(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
async def users_without_passwords_are_not_found(admin: Admin, target: Target) -> None:
    found = await admin.describe_user_scram_credentials(["absent"])
    assert [error.code for error in found.errors.values()] == [ErrorCode.RESOURCE_NOT_FOUND]
