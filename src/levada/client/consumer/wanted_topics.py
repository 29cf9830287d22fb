"""Which topics a consumer's subscription means, and what is known of them."""

from collections.abc import Collection, Iterable, Mapping

from levada.client.cluster import Cluster, ClusterView, Deadline
from levada.client.consumer.subscription import Mode, Subscriptions
from levada.client.errors import error_for
from levada.model.error_codes import ErrorCode

FAULTS_TO_TELL = (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
"""Those that do not pass by waiting for the topic to be created."""
ASK_AT_MOST = 3


class WantedTopics:
    """Keeps the cluster's view to what the subscription needs, and a pattern's topics to what there is."""

    def __init__(self, cluster: Cluster, subscriptions: Subscriptions) -> None:
        self._cluster = cluster
        self._subscriptions = subscriptions
        self._excludes_internal: bool = cluster.options["exclude.internal.topics"]
        self.of_group: frozenset[str] = frozenset()
        """What the members want that this one leads."""
        self._seen: tuple[ClusterView, int] | None = None

    def update(self) -> None:
        """After the subscription or the view has changed; raises what the user must know of a topic."""
        subscriptions, cluster = self._subscriptions, self._cluster
        seen = (cluster.view, subscriptions.version)
        if self._seen is not None and self._seen[0] is seen[0] and self._seen[1] == seen[1]:
            return
        if subscriptions.mode in (Mode.PATTERN, Mode.SERVER_PATTERN):
            # What the coordinator's pattern means is told by ids, which the view of all topics can name.
            if not cluster.wants_all_topics:
                cluster.wants_all_topics = True
                cluster.refresh_soon()
            if subscriptions.mode is Mode.PATTERN:
                subscriptions.found(self._matching())
        else:
            cluster.wants_all_topics = False
            self._want()
            for topic in sorted(subscriptions.topics):
                fault = cluster.view.faults.get(topic)
                if fault in FAULTS_TO_TELL:
                    raise error_for(fault, context=f"topic {topic}")
        self._seen = (cluster.view, subscriptions.version)

    def accept(self, topics: Collection[str]) -> None:
        """A leader with a newer view has found more topics for the pattern than this client."""
        subscriptions = self._subscriptions
        if subscriptions.mode is Mode.PATTERN and not subscriptions.topics.issuperset(topics):
            subscriptions.found(subscriptions.topics.union(topics))
            self._seen = (self._cluster.view, subscriptions.version)
            self._cluster.refresh_soon()

    async def look_for_matches(self) -> None:
        """Ask for all topics once, so that a member does not join for nothing first."""
        if self._subscriptions.mode is Mode.PATTERN and not self._subscriptions.topics:
            self._cluster.wants_all_topics = True
            forever = Deadline(self._cluster.world.clock, None)
            await self._cluster.persist(self._cluster.refresh, forever, "the topics were not listed")
            self.update()

    async def learn(self, topics: Collection[str]) -> None:
        """What the leader of a group has to know, and to watch from now on."""
        self.of_group = frozenset(topics)
        self._want()
        for _ in range(ASK_AT_MOST):
            view = self._cluster.view
            if all(topic in view.topics or topic in view.faults for topic in topics):
                return
            # A refresh that was under way does not know of these yet.
            await self._cluster.refresh()

    def lead_no_more(self) -> None:
        if self.of_group:
            self.of_group = frozenset()
            self._want()

    def counts(self, topics: Iterable[str]) -> dict[str, int]:
        """Partitions of each topic that there is."""
        known = self._cluster.view.topics
        return {topic: len(known[topic].partitions) for topic in topics if topic in known}

    def racks(self, topics: Iterable[str]) -> Mapping[str, list[list[str]]]:
        """For each partition the racks of its replicas."""
        view = self._cluster.view
        racks = {node_id: broker.rack for node_id, broker in view.brokers.items() if broker.rack}
        if not racks:
            return {}
        return {
            topic: [
                [racks[replica] for replica in partition.replicas if replica in racks]
                for partition in view.topics[topic].partitions
            ]
            for topic in topics
            if topic in view.topics
        }

    def matches(self, topic: str) -> bool:
        """Whether the subscription means this topic, known or not."""
        subscriptions = self._subscriptions
        if subscriptions.mode is Mode.PATTERN:
            assert subscriptions.pattern is not None
            return subscriptions.pattern.fullmatch(topic) is not None
        return topic in subscriptions.topics

    def _want(self) -> None:
        if not self._cluster.wants_all_topics:
            self._cluster.want_only(sorted(self._subscriptions.topics | self.of_group))

    def _matching(self) -> list[str]:
        return [
            name
            for name, topic in self._cluster.view.topics.items()
            if self.matches(name) and not (topic.is_internal and self._excludes_internal)
        ]
