"""What a node tells its gauges of the broker, the controller and every replica."""

from collections.abc import Callable, Iterator

from levada.broker.broker import Broker
from levada.broker.gauges import BrokerFigures, ControllerFigures, PartitionFigures
from levada.metadata.records import NO_LEADER
from levada.net.open_connections import OpenConnections
from levada.net.request_memory import RequestMemory

LISTENER = "PLAINTEXT"


class NodeView:
    def __init__(
        self,
        broker: Broker,
        connections: OpenConnections,
        memory: RequestMemory,
        state: Callable[[], int],
        is_controller: Callable[[], bool],
    ) -> None:
        self._broker = broker
        self._connections = connections
        self._memory = memory
        self._state = state
        self._is_controller = is_controller

    def partitions(self) -> Iterator[PartitionFigures]:
        for partition in list(self._broker.replicas.all()):
            log = partition.log
            if partition.is_removed or log.is_offline:
                continue
            yield PartitionFigures(
                topic=partition.topic,
                partition=partition.index,
                is_leader=partition.is_leader,
                replicas=len(partition.state.replicas),
                in_sync_replicas=len(partition.state.isr),
                min_in_sync_replicas=partition.min_in_sync_replicas,
                log_size=log.size,
                retention_bytes=log.config.retention_bytes,
                segments=len(log.segments),
                log_start_offset=log.start_offset,
                log_end_offset=log.end_offset,
                high_watermark=log.high_watermark,
                last_stable_offset=log.last_stable_offset,
                producer_ids=len(log.producers),
            )

    def broker(self) -> BrokerFigures:
        broker = self._broker
        return BrokerFigures(
            state=self._state(),
            cluster_id=broker.identity.cluster_id,
            offline_replicas=sum(len(topic.offline) for topic in broker.replicas.topics()),
            offline_log_directories=len(broker.logs.offline),
            log_directories={one.absolute_directory: one.is_offline for one in broker.logs},
            delayed_operations={"Fetch": broker.delayed.parked["Fetch"]},
            fetch_sessions=len(broker.fetch_sessions),
            fetch_session_partitions=broker.fetch_sessions.partition_count,
            memory_pool_used=self._memory.used,
            memory_pool_available=self._memory.available,
            connections={LISTENER: self._connections.open},
            last_applied_record_offset=broker.image.offset,
        )

    def controller(self) -> ControllerFigures:
        if not self._is_controller():
            return ControllerFigures()
        image = self._broker.image
        partitions = [partition for topic in image.topics.values() for partition in topic.partitions]
        fenced = sum(1 for broker in image.brokers.values() if broker.is_fenced)
        return ControllerFigures(
            is_active=True,
            topics=len(image.topics),
            partitions=len(partitions),
            offline_partitions=sum(1 for partition in partitions if partition.leader == NO_LEADER),
            fenced_brokers=fenced,
            active_brokers=len(image.brokers) - fenced,
        )
