"""What the keys of clients mean here: which have an effect, which have none, and which are not supported yet."""

from levada.client.options.security_keys import SECURITY_KEYS

_PLAINTEXT = "the clients speak PLAINTEXT only, without encryption and authentication"
_SHARE = "there is no share consumer"

UNSUPPORTED: dict[str, str] = {
    **{key.name: _PLAINTEXT for key in SECURITY_KEYS},
    "bootstrap.controllers": "the admin client talks to brokers; give bootstrap.servers",
    "config.providers": "values are taken as they are written",
    "share.acknowledgement.mode": _SHARE,
    "share.acquire.mode": _SHARE,
    "transaction.two.phase.commit.enable": "transactions of the clients expire after transaction.timeout.ms",
}
"""Refused when they ask for anything, and why."""

NO_EFFECT: frozenset[str] = frozenset(
    {
        "client.dns.lookup",
        "enable.metrics.push",
        "internal.throw.on.fetch.stable.offset.unsupported",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
    }
)
"""Accepted with a warning."""

_REQUEST = "How long the answer of a broker is waited for before the request counts as lost."

MEANINGS: dict[str, str] = {
    "acks": "Which replicas must have a record before it counts as sent: all in sync, the leader (1), none (0).",
    "allow.auto.create.topics": "Whether subscribing may create a topic, where the brokers allow it.",
    "auto.commit.interval.ms": "How often positions are committed by themselves.",
    "auto.offset.reset": "Where to begin without a position: at an end of the log, so long ago, or with an error.",
    "batch.size": "Bytes of records that are gathered for one partition; 0 sends each alone.",
    "bootstrap.servers": "Brokers to ask first, as `host:port`; the first argument of each client.",
    "buffer.memory": "Bytes of records that may wait to be sent; `send` blocks beyond that.",
    "check.crcs": "Whether the checksums of fetched batches are checked.",
    "client.id": "What the brokers call this client in logs, quotas and metrics.",
    "client.rack": "Where this consumer stands, to read from a replica nearby.",
    "compression.gzip.level": "The level of gzip; -1 is the codec's own.",
    "compression.lz4.level": "The level of lz4.",
    "compression.type": "How batches are compressed.",
    "compression.zstd.level": "The level of zstd.",
    "connections.max.idle.ms": "A connection that is silent for so long is closed.",
    "default.api.timeout.ms": "How long a call may take that has no timeout of its own.",
    "delivery.timeout.ms": "When a record counts as failed, retries and waiting included.",
    "enable.auto.commit": "Whether `poll` commits the positions; false without a group.",
    "enable.idempotence": "Whether retries can neither repeat nor reorder records.",
    "exclude.internal.topics": "Whether a pattern leaves out Kafka's own topics.",
    "fetch.max.bytes": "The most that one fetch returns, but for a first batch that is larger.",
    "fetch.max.wait.ms": "How long a broker may wait for `fetch.min.bytes`.",
    "fetch.min.bytes": "What a fetch waits for.",
    "group.id": "The group that shares the partitions and the committed positions.",
    "group.instance.id": "A name that survives restarts, so that they cause no rebalance.",
    "group.protocol": "`classic`, or `consumer`, where the broker assigns the partitions (KIP-848).",
    "group.remote.assignor": "The broker's assignor, with `group.protocol=consumer`.",
    "heartbeat.interval.ms": "How often a member tells the group that it lives.",
    "interceptor.classes": "Classes or objects that see each record and each outcome, in this order.",
    "isolation.level": "`read_committed` leaves out what was aborted, and waits for what is undecided.",
    "key.deserializer": "`bytes`, `str`, `json`, `int`, `long`, one of Java's own, or a callable; bytes if not given.",
    "key.serializer": "`bytes`, `str`, `json`, `int`, `long`, one of Java's own, or a callable; bytes if not given.",
    "linger.ms": "How long a batch waits to fill.",
    "max.block.ms": "How long `send` may wait for metadata and for room in `buffer.memory`.",
    "max.in.flight.requests.per.connection": (
        "Requests that may be under way to a broker; at most 5 with idempotence. 1 keeps the order without it."
    ),
    "max.partition.fetch.bytes": "The most that a fetch returns for one partition, but for a larger first batch.",
    "max.poll.interval.ms": "A member that does not poll for so long leaves the group.",
    "max.poll.records": "The most that one `poll` returns.",
    "max.request.size": "The largest request, and so the largest record.",
    "metadata.max.age.ms": "How old the view of the cluster may grow.",
    "metadata.max.idle.ms": "A topic that was not sent to for so long is forgotten.",
    "metadata.recovery.strategy": "`rebootstrap` begins again at `bootstrap.servers`, `none` does not.",
    "partition.assignment.strategy": (
        "`range`, `roundrobin`, `sticky`, `cooperative-sticky`, Java's names for them, or objects; the preferred first."
    ),
    "partitioner.adaptive.partitioning.enable": "Whether records without a key go more to partitions that keep up.",
    "partitioner.availability.timeout.ms": (
        "Records without a key leave out partitions that took nothing for so long; 0 leaves none out."
    ),
    "partitioner.class": "`default`, `round_robin`, `hot_key`, or a callable.",
    "partitioner.ignore.keys": "Whether records with a key go where those without do.",
    "receive.buffer.bytes": "The socket's buffer for what comes in; the system's own choice unless it is given.",
    "reconnect.backoff.max.ms": "The longest wait between attempts to connect.",
    "reconnect.backoff.ms": "The first wait between attempts to connect; alone, every wait.",
    "request.timeout.ms": _REQUEST,
    "retries": "How often a request is tried again; better bounded by the timeouts.",
    "retry.backoff.max.ms": "The longest wait before a request is tried again.",
    "retry.backoff.ms": "The first wait before a request is tried again.",
    "security.protocol": "PLAINTEXT; others are not supported yet.",
    "send.buffer.bytes": "The socket's buffer for what goes out; the system's own choice unless it is given.",
    "session.timeout.ms": (
        "A member that is silent for so long is taken for dead; a warning where it is below three heartbeats."
    ),
    "socket.connection.setup.timeout.max.ms": "The longest time for a connection to be set up.",
    "socket.connection.setup.timeout.ms": "The first time limit for a connection to be set up.",
    "transaction.timeout.ms": "When the coordinator aborts a transaction that was not ended.",
    "transactional.id": "The name of a transactional producer; the newest with it fences the others.",
    "value.deserializer": "As `key.deserializer`, for values.",
    "value.serializer": "As `key.serializer`, for values.",
}
"""The keys with an effect."""
