"""Transactions and producers: listed, described, ended by force."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from levada.client.admin.ids import by_topic
from levada.client.admin.kinds import TransactionState
from levada.client.admin.outcomes import Outcomes
from levada.client.admin.part import AdminPart
from levada.client.admin.request_router import (
    BROKER_FAULTS,
    COORDINATOR_FAULTS,
    LEADER_FAULTS,
    BrokerAnswer,
    Question,
    Route,
    check,
    verdict,
)
from levada.client.cluster import CoordinatorKind
from levada.client.cluster.node import SOFTWARE_NAME, SOFTWARE_VERSION
from levada.client.errors import KafkaError
from levada.client.producer.group_commit import TransactionTicket
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey
from levada.protocol.messages import describe_transactions
from levada.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from levada.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from levada.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from levada.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from levada.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from levada.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from levada.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

NONE = -1
NO_FILTER = -1


@dataclass(frozen=True, slots=True)
class TransactionListing:
    transactional_id: str
    producer_id: int
    state: TransactionState
    coordinator: int
    """The broker that lists it."""


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    coordinator: int
    state: TransactionState
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    """None while no transaction is under way."""
    partitions: tuple[TopicPartition, ...]
    """What the transaction under way has written to."""


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """A producer as a partition remembers it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    transaction_start_offset: int | None
    """Where its open transaction begins in this partition; None where it has none."""


@dataclass(frozen=True, slots=True)
class AbortTransaction:
    """An open transaction in one partition: what `describe_producers` tells of it."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class FencedProducer:
    """The id and epoch that a transactional id has from now on: no producer holds them until the next one starts."""

    producer_id: int
    producer_epoch: int


class TransactionsPart(AdminPart):
    async def list_transactions(
        self,
        *,
        states: Iterable[TransactionState | str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int | None = None,
        transactional_id_pattern: str | None = None,
        timeout_ms: float | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids that brokers know: all, or those in these states, of these producers, and so on.

        Raises when a broker could not be asked: part of a list is no list.

        >>> await admin.list_transactions(states=[TransactionState.ONGOING], longer_than_ms=60_000)
        []
        """
        deadline = self._requests.deadline(timeout_ms)
        request = ListTransactionsRequest(
            state_filters=[str(state) for state in states],
            producer_id_filters=list(producer_ids),
            duration_filter=NO_FILTER if longer_than_ms is None else longer_than_ms,
            transactional_id_pattern=transactional_id_pattern,
        )
        question: Question[int, list[TransactionListing], ListTransactionsResponse] = Question(
            what="to list transactions",
            route=self._routing.brokers(lambda broker: broker),
            request=lambda _, __: request,
            read=_read_listings,
            passing=COORDINATOR_FAULTS | BROKER_FAULTS,
        )
        found = await self._requests.each(await self._requests.broker_ids(deadline), question, deadline)
        return [listing for listings in found.values() for listing in listings]

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> Outcomes[str, TransactionDescription]:
        """What the coordinator knows of each transactional id."""
        question: Question[str, TransactionDescription, DescribeTransactionsResponse] = Question(
            what="to describe transactions",
            route=self._routing.coordinators(CoordinatorKind.TRANSACTION),
            request=lambda ids, _: DescribeTransactionsRequest(transactional_ids=list(ids)),
            read=_read_transactions,
            passing=COORDINATOR_FAULTS,
        )
        return await self._requests.each(transactional_ids, question, self._requests.deadline(timeout_ms))

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: int | None = None,
        timeout_ms: float | None = None,
    ) -> Outcomes[TopicPartition, tuple[ActiveProducer, ...]]:
        """The producers that write to partitions, as their leaders know them, or as a broker with a replica does."""
        route: Route[TopicPartition] = (
            self._routing.leaders(lambda partition: partition)
            if broker_id is None
            else self._routing.brokers(lambda _: broker_id)
        )
        passing = LEADER_FAULTS
        if broker_id is not None:
            # That this broker is not the leader is known, and will not change.
            passing = (LEADER_FAULTS | BROKER_FAULTS) - {ErrorCode.NOT_LEADER_OR_FOLLOWER}

        def request(items: Sequence[TopicPartition], _: int) -> DescribeProducersRequest:
            return DescribeProducersRequest(
                topics=[
                    TopicRequest(name=topic, partition_indexes=indexes) for topic, indexes in by_topic(items).items()
                ]
            )

        question: Question[TopicPartition, tuple[ActiveProducer, ...], DescribeProducersResponse] = Question(
            what="to describe producers", route=route, request=request, read=_read_producers, passing=passing
        )
        return await self._requests.each(partitions, question, self._requests.deadline(timeout_ms))

    async def abort_transaction(self, transaction: AbortTransaction, *, timeout_ms: float | None = None) -> None:
        """End a transaction in one partition that its coordinator has forgotten and that keeps readers waiting."""
        partition = transaction.partition
        marker = WritableTxnMarker(
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
            coordinator_epoch=transaction.coordinator_epoch,
        )
        question: Question[TopicPartition, None, WriteTxnMarkersResponse] = Question(
            what="to abort a transaction",
            route=self._routing.leaders(lambda item: item),
            request=lambda _, __: WriteTxnMarkersRequest(markers=[marker]),
            read=_read_markers,
            passing=LEADER_FAULTS,
        )
        found = await self._requests.each([partition], question, self._requests.deadline(timeout_ms))
        found.raise_any()

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> Outcomes[str, FencedProducer]:
        """Put producers out of action, and abort their transactions.

        >>> (await admin.fence_producers(["copier-7"]))["copier-7"].producer_epoch
        0
        """

        def read(answer: BrokerAnswer[str, InitProducerIdResponse]) -> dict[str, FencedProducer | KafkaError]:
            response = answer.response
            (transactional_id,) = answer.items
            fenced = FencedProducer(response.producer_id, response.producer_epoch)
            return {transactional_id: verdict(response.error_code, None, transactional_id, fenced)}

        question: Question[str, FencedProducer, InitProducerIdResponse] = Question(
            what="to fence producers",
            route=self._routing.coordinators(CoordinatorKind.TRANSACTION),
            request=lambda ids, left_ms: InitProducerIdRequest(
                # As long as it takes: a fenced producer has no transaction that could last longer.
                transactional_id=ids[0],
                transaction_timeout_ms=max(left_ms, 1),
            ),
            read=read,
            # While the open transaction is being aborted.
            passing=COORDINATOR_FAULTS | {ErrorCode.CONCURRENT_TRANSACTIONS},
            is_single=True,
        )
        return await self._requests.each(transactional_ids, question, self._requests.deadline(timeout_ms))

    async def abort_handed_over(
        self, tickets: Iterable[TransactionTicket], *, timeout_ms: float | None = None
    ) -> Outcomes[str, None]:
        """Abort transactions that were handed over and not committed; one that has ended or goes on is left alone."""
        wanted = {ticket.transactional_id: ticket for ticket in tickets}

        def read(answer: BrokerAnswer[str, EndTxnResponse]) -> dict[str, KafkaError | None]:
            response = answer.response
            (transactional_id,) = answer.items
            return {transactional_id: verdict(response.error_code, None, transactional_id, None)}

        question: Question[str, None, EndTxnResponse] = Question(
            what="to abort transactions",
            route=self._routing.coordinators(CoordinatorKind.TRANSACTION),
            request=lambda ids, _: EndTxnRequest(
                transactional_id=ids[0],
                producer_id=wanted[ids[0]].producer_id,
                producer_epoch=wanted[ids[0]].producer_epoch,
                committed=False,
            ),
            read=read,
            passing=COORDINATOR_FAULTS | {ErrorCode.CONCURRENT_TRANSACTIONS},
            is_single=True,
        )
        return await self._requests.each(wanted, question, self._requests.deadline(timeout_ms))

    async def can_commit_groups(self, *, timeout_ms: float | None = None) -> bool:
        """Whether the brokers commit several transactions as one: Levada's do, others do not."""
        question: Question[str, bool, ApiVersionsResponse] = Question(
            what="to ask for what the brokers can do",
            route=self._routing.any,
            request=lambda _, __: ApiVersionsRequest(
                client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
            ),
            read=lambda answer: {
                answer.items[0]: any(each.api_key == ApiKey.GROUP_COMMIT for each in answer.response.api_keys)
            },
        )
        return await self._requests.one(question, self._requests.deadline(timeout_ms))


def _read_listings(
    answer: BrokerAnswer[int, ListTransactionsResponse],
) -> dict[int, list[TransactionListing] | KafkaError]:
    response = answer.response
    check(response.error_code, context="to list transactions")
    (broker,) = answer.items
    if response.unknown_state_filters:
        unknown = ", ".join(response.unknown_state_filters)
        return {broker: KafkaError(f"to list transactions: broker {broker} knows no such states: {unknown}")}
    listings = [
        TransactionListing(one.transactional_id, one.producer_id, TransactionState(one.transaction_state), broker)
        for one in response.transaction_states
    ]
    return {broker: listings}


def _read_transactions(
    answer: BrokerAnswer[str, DescribeTransactionsResponse],
) -> dict[str, TransactionDescription | KafkaError]:
    response = answer.response
    assert answer.broker is not None
    return {
        one.transactional_id: verdict(one.error_code, None, one.transactional_id, _transaction(one, answer.broker))
        for one in response.transaction_states
    }


def _transaction(state: describe_transactions.TransactionState, coordinator: int) -> TransactionDescription:
    return TransactionDescription(
        coordinator=coordinator,
        state=TransactionState(state.transaction_state),
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        timeout_ms=state.transaction_timeout_ms,
        start_ms=None if state.transaction_start_time_ms < 0 else state.transaction_start_time_ms,
        partitions=tuple(
            TopicPartition(topic.topic, partition) for topic in state.topics for partition in topic.partitions
        ),
    )


def _read_producers(
    answer: BrokerAnswer[TopicPartition, DescribeProducersResponse],
) -> dict[TopicPartition, tuple[ActiveProducer, ...] | KafkaError]:
    response = answer.response
    found: dict[TopicPartition, tuple[ActiveProducer, ...] | KafkaError] = {}
    for topic in response.topics:
        for one in topic.partitions:
            partition = TopicPartition(topic.name, one.partition_index)
            producers = tuple(_producer(state) for state in one.active_producers)
            found[partition] = verdict(one.error_code, one.error_message, str(partition), producers)
    return found


def _producer(state: ProducerState) -> ActiveProducer:
    start = state.current_txn_start_offset
    return ActiveProducer(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_timestamp_ms=state.last_timestamp,
        coordinator_epoch=None if state.coordinator_epoch == NONE else state.coordinator_epoch,
        transaction_start_offset=None if start == NONE else start,
    )


def _read_markers(
    answer: BrokerAnswer[TopicPartition, WriteTxnMarkersResponse],
) -> dict[TopicPartition, KafkaError | None]:
    response = answer.response
    found: dict[TopicPartition, KafkaError | None] = {}
    for marker in response.markers:
        for topic in marker.topics:
            for one in topic.partitions:
                partition = TopicPartition(topic.name, one.partition_index)
                found[partition] = verdict(one.error_code, None, str(partition), None)
    return found
