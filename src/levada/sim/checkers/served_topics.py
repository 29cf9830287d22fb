"""What a broker serves, compared with what the clients know that made and changed its topics."""

from collections.abc import Iterable

from levada.metadata.image import TOPIC
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from levada.protocol.messages.metadata import MetadataRequest
from levada.sim.checkers.check_failed import CheckFailed
from levada.sim.checkers.partition_log import read_log
from levada.sim.checkers.topic_history import ServedTopic, TopicHistory
from levada.sim.requests.connections import Connector
from levada.sim.requests.topics import produce_request

DYNAMIC_TOPIC_CONFIG = 1


async def check_topics(connector: Connector, histories: Iterable[TopicHistory]) -> dict[str, ServedTopic]:
    """Compare a broker that was started anew with what all its clients know; returns the topics it serves."""
    served = await served_topics(connector)
    by_name = {history.name: history for history in histories}
    strangers = sorted(set(served) - set(by_name))
    if strangers:
        raise CheckFailed(f"no client created {strangers}")
    for name, history in by_name.items():
        history.settle(served.get(name))
    for name, topic in served.items():
        for partition in range(topic.partitions):
            await _check_served(connector, by_name[name], partition)
    return served


async def served_topics(connector: Connector) -> dict[str, ServedTopic]:
    reply = await connector.call(MetadataRequest(topics=None), 12)
    topics = {}
    for topic in reply.topics:
        if any(partition.error_code for partition in topic.partitions):
            raise CheckFailed(f"{topic.name} has partitions without a leader")
        if [partition.partition_index for partition in topic.partitions] != list(range(len(topic.partitions))):
            raise CheckFailed(f"{topic.name} has partitions {topic.partitions}")
        name = topic.name or ""
        topics[name] = ServedTopic(topic.topic_id, len(topic.partitions), await _configs(connector, name))
    return topics


async def _configs(connector: Connector, topic: str) -> tuple[tuple[str, str], ...]:
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=None)
    reply = await connector.call(DescribeConfigsRequest(resources=[resource]), 4)
    entries = reply.results[0].configs
    return tuple(sorted((one.name, one.value or "") for one in entries if one.config_source == DYNAMIC_TOPIC_CONFIG))


async def _check_served(connector: Connector, history: TopicHistory, partition: int) -> None:
    """Every partition of every topic takes records and gives them back."""
    log = await read_log(connector, history.name, partition)
    history.check_records(partition, [value for _, value in log])
    value = f"checked {history.name} {partition} {len(log)}".encode()
    history.send(partition, value, is_acknowledged=False)
    reply = await connector.call(produce_request(history.name, partition, value), 9)
    code = reply.responses[0].partition_responses[0].error_code
    if code != ErrorCode.NONE:
        raise CheckFailed(f"{history.name}-{partition} takes no records: {ErrorCode(code).name}")
    history.send(partition, value, is_acknowledged=True)
    after = await read_log(connector, history.name, partition)
    if after != [*log, (len(log), value)]:
        raise CheckFailed(f"{history.name}-{partition} does not give back what it took: {after[len(log) :]}")
