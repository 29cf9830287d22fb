"""Configurations of topics, brokers, loggers and groups."""

from levada.client.admin import (
    Admin,
    Append,
    ConfigEntry,
    ConfigKind,
    ConfigResource,
    ConfigSource,
    ConfigType,
    Subtract,
)
from levada.client.errors import InvalidConfig, UnknownTopicOrPartition
from levada.model.error_codes import ErrorCode
from tests.clients.admin_cases.case import Cases, Target, create, until

CONFIG_CASES = Cases()


async def has(admin: Admin, resource: ConfigResource, name: str, value: str) -> None:
    """Wait until the broker has heard of a change."""

    async def is_so() -> bool:
        return (await entry(admin, resource, name)).value == value

    await until(f"{name} of {resource} is {value}", is_so)


async def entry(admin: Admin, resource: ConfigResource, name: str) -> ConfigEntry:
    return (await admin.describe_configs([resource], keys=[name]))[resource][name]


@CONFIG_CASES
async def a_topics_keys_are_told_with_their_sources(admin: Admin, target: Target) -> None:
    topic = ConfigResource.topic(await create(admin, target, "described", retention_ms="5000"))
    found = (await admin.describe_configs([topic], include_synonyms=True, include_documentation=True))[topic]
    retention, segment = found["retention.ms"], found["max.message.bytes"]
    assert (retention.value, retention.source, retention.type) == ("5000", ConfigSource.TOPIC, ConfigType.LONG)
    assert not retention.is_default
    assert not retention.is_read_only
    assert not retention.is_sensitive
    assert retention.documentation
    assert retention.synonyms[0].value == "5000"
    assert retention.synonyms[0].source == ConfigSource.TOPIC
    assert segment.source == ConfigSource.DEFAULT
    assert segment.is_default
    plain = (await admin.describe_configs([topic], keys=["retention.ms", "no.such.key"]))[topic]
    assert list(plain) == ["retention.ms"]
    assert plain["retention.ms"].synonyms == ()
    assert plain["retention.ms"].documentation is None


@CONFIG_CASES
async def keys_are_changed_one_by_one(admin: Admin, target: Target) -> None:
    topic = ConfigResource.topic(await create(admin, target, "changed", retention_ms="5000", segment_ms="7000"))
    (
        await admin.incremental_alter_configs(
            {topic: {"retention.ms": None, "max.message.bytes": "2000", "cleanup.policy": Append("compact")}}
        )
    ).raise_any()
    await has(admin, topic, "max.message.bytes", "2000")
    found = (await admin.describe_configs([topic]))[topic]
    assert found["retention.ms"].is_default
    assert found["max.message.bytes"].value == "2000"
    assert found["segment.ms"].value == "7000"
    assert found["cleanup.policy"].value == "delete,compact"
    (await admin.incremental_alter_configs({topic: {"cleanup.policy": Subtract("delete")}})).raise_any()
    await has(admin, topic, "cleanup.policy", "compact")
    (await admin.incremental_alter_configs({topic: {"segment.ms": "9000"}}, validate_only=True)).raise_any()
    assert (await entry(admin, topic, "segment.ms")).value == "7000"


@CONFIG_CASES
async def changes_that_are_refused_fail_each_for_itself(admin: Admin, target: Target) -> None:
    good, bad = [ConfigResource.topic(await create(admin, target, "refused")) for _ in range(2)]
    nowhere = ConfigResource.topic("refused-unknown")
    change = {"retention.ms": "6000"}
    altered = await admin.incremental_alter_configs({good: change, bad: {"retention.ms": "soon"}, nowhere: change})
    assert list(altered.done) == [good]
    assert {key: type(error) for key, error in altered.errors.items()} == {
        bad: InvalidConfig,
        nowhere: UnknownTopicOrPartition,
    }
    await has(admin, good, "retention.ms", "6000")
    found = await admin.describe_configs([good, nowhere])
    assert list(found.errors) == [nowhere]


@CONFIG_CASES
async def all_keys_are_replaced_at_once(admin: Admin, target: Target) -> None:
    topic = ConfigResource.topic(await create(admin, target, "replaced", retention_ms="5000", segment_ms="7000"))
    (await admin.alter_configs({topic: {"segment.ms": "1"}}, validate_only=True)).raise_any()
    (await admin.alter_configs({topic: {"segment.ms": "8000"}})).raise_any()
    await has(admin, topic, "segment.ms", "8000")
    assert (await entry(admin, topic, "retention.ms")).is_default


@CONFIG_CASES
async def a_broker_tells_its_own_keys_and_takes_some_while_it_runs(admin: Admin, target: Target) -> None:
    one, every = ConfigResource.broker(target.broker_id), ConfigResource.broker(None)
    node_id = await entry(admin, one, "node.id")
    assert (node_id.value, node_id.is_read_only) == (str(target.broker_id), True)
    altered = await admin.incremental_alter_configs({one: {"node.id": "9"}, every: {"log.retention.ms": "90000000"}})
    assert list(altered.done) == [every]
    await has(admin, one, "log.retention.ms", "90000000")
    assert (await entry(admin, one, "log.retention.ms")).source == ConfigSource.BROKER_DEFAULT
    (await admin.incremental_alter_configs({every: {"log.retention.ms": None}})).raise_any()


@CONFIG_CASES
async def a_broker_that_is_not_there_has_no_configuration(admin: Admin, target: Target) -> None:
    here, away = ConfigResource.broker(target.broker_id), ConfigResource.broker(77)
    found = await admin.describe_configs([here, away])
    assert list(found.done) == [here]
    assert "77" in str(found.errors[away])


@CONFIG_CASES
async def a_group_has_a_configuration(admin: Admin, target: Target) -> None:
    group = ConfigResource.group(target.fresh("tuned"))
    (await admin.incremental_alter_configs({group: {"consumer.session.timeout.ms": "50000"}})).raise_any()
    await has(admin, group, "consumer.session.timeout.ms", "50000")
    assert (await entry(admin, group, "consumer.session.timeout.ms")).source == ConfigSource.GROUP
    assert group in await admin.list_config_resources([ConfigKind.GROUP])


@CONFIG_CASES
async def a_brokers_loggers_are_told(admin: Admin, target: Target) -> None:
    loggers = ConfigResource(ConfigKind.BROKER_LOGGER, str(target.broker_id))
    found = (await admin.describe_configs([loggers]))[loggers]
    assert all(one.source == ConfigSource.BROKER_LOGGER for one in found.values())
    altered = await admin.incremental_alter_configs({loggers: {"root": "NO SUCH LEVEL"}})
    assert [error.code for error in altered.errors.values()] == [ErrorCode.INVALID_CONFIG]


@CONFIG_CASES
async def what_has_a_configuration_is_listed(admin: Admin, target: Target) -> None:
    topic = ConfigResource.topic(await create(admin, target, "listed"))
    every = await admin.list_config_resources()
    assert topic in every
    assert ConfigResource.broker(target.broker_id) in every
    assert await admin.list_config_resources([ConfigKind.BROKER]) == [ConfigResource.broker(target.broker_id)]
    assert await admin.list_config_resources([ConfigKind.CLIENT_METRICS]) == []
