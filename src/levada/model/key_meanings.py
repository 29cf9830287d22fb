"""What the keys that have an effect here mean; a key that is not in these tables is accepted and changes nothing."""

NO_EFFECT = "Accepted, no effect here."

_LOOP = "Accepted, no effect here: one event loop per broker does this."
_DOOR = "Accepted, no effect here: the cluster's state lives behind a coordinator, not in a quorum of controllers."

NOTES: dict[str, str] = {
    "background.threads": _LOOP,
    "group.coordinator.background.threads": _LOOP,
    "group.coordinator.threads": _LOOP,
    "num.io.threads": _LOOP,
    "num.network.threads": _LOOP,
    "num.replica.fetchers": _LOOP,
    "share.coordinator.threads": _LOOP,
    "queued.max.requests": (
        "Accepted, no effect here: there is no queue between network and workers; each connection has at most 64 "
        "requests under way, and `queued.max.request.bytes` bounds them all."
    ),
    "controller.quorum.bootstrap.servers": _DOOR,
    "controller.quorum.voters": _DOOR,
}
"""What there is to say about keys without an effect, where Kafka's name promises one."""

BROKER_MEANINGS: dict[str, str] = {
    "advertised.listeners": (
        "What clients of each listener are told to connect to; the listeners, where it is not given. One that is left "
        "out is told to no client."
    ),
    "auto.create.topics.enable": "Create a topic when a client first asks for it.",
    "broker.heartbeat.interval.ms": "How often a broker tells the controller that it lives.",
    "broker.id": "The older name of `node.id`.",
    "broker.rack": "Where this broker stands; replicas of a partition are kept on different racks.",
    "broker.session.timeout.ms": (
        "A broker that the controller has not heard for so long is fenced; a controller that is silent for so long is "
        "succeeded by another."
    ),
    "compression.gzip.level": "The level where a topic's compression is gzip; -1 is the codec's own.",
    "compression.lz4.level": "The level where a topic's compression is lz4.",
    "compression.type": "What batches are stored with; `producer` keeps them as they came.",
    "compression.zstd.level": "The level where a topic's compression is zstd.",
    "connections.max.idle.ms": "A connection that is silent for so long is closed.",
    "controller.listener.names": "Listeners with these names are for Apache's controllers, and left out here.",
    "default.replication.factor": "Replicas of a topic that is created without a number.",
    "delete.topic.enable": "Whether a topic can be deleted (TOPIC_DELETION_DISABLED).",
    "fetch.max.bytes": "The most that one fetch returns, but for a first batch that is larger.",
    "group.consumer.assignment.interval.ms": (
        "A consumer group gets its next assignment not before this time has passed since its last (KIP-1263)."
    ),
    "group.consumer.assignors": "The assignors of consumer groups; the first is used where members name none.",
    "group.consumer.heartbeat.interval.ms": "How often members of consumer groups are told to send heartbeats.",
    "group.consumer.max.assignment.interval.ms": "The longest assignment interval a consumer group may have.",
    "group.consumer.max.heartbeat.interval.ms": "The longest heartbeat interval a consumer group may have.",
    "group.consumer.max.session.timeout.ms": "The longest session timeout a consumer group may have.",
    "group.consumer.max.size": "How many members a consumer group can have.",
    "group.consumer.migration.policy": "Whether groups change between the protocols while they have members.",
    "group.consumer.min.assignment.interval.ms": "The shortest assignment interval a consumer group may have.",
    "group.consumer.min.heartbeat.interval.ms": "The shortest heartbeat interval a consumer group may have.",
    "group.consumer.min.session.timeout.ms": "The shortest session timeout a consumer group may have.",
    "group.consumer.regex.refresh.interval.ms": "How often regular expressions are matched with new topics.",
    "group.consumer.session.timeout.ms": (
        "A member of a consumer group that is silent for so long is taken for dead; a warning is logged where it is "
        "below three heartbeat intervals."
    ),
    "group.initial.rebalance.delay.ms": "How long a new group waits for more members.",
    "group.max.session.timeout.ms": "The longest session timeout a member may ask for.",
    "group.max.size": "How many members a group can have.",
    "group.min.session.timeout.ms": "The shortest session timeout a member may ask for.",
    "initial.broker.registration.timeout.ms": "How long a broker that starts waits for a controller.",
    "inter.broker.listener.name": (
        "The listener over which brokers ask each other, PLAINTEXT or else the first where it is not given; the others "
        "refuse what only brokers may ask."
    ),
    "listener.security.protocol.map": "What the names of listeners stand for; PLAINTEXT is what is served.",
    "listeners": (
        "Where to listen: `NAME://HOST:PORT`, with commas between; names and ports differ, an empty host means every "
        "interface."
    ),
    "log.cleaner.backoff.ms": "How often compacted logs are looked at while none of them needs cleaning.",
    "log.cleaner.dedupe.buffer.size": (
        "Memory for the keys of the logs that are cleaned at a time, 24 bytes each, shared by `log.cleaner.threads`; "
        "more than 1 MB for each of them. A log with more keys takes several passes."
    ),
    "log.cleaner.delete.retention.ms": "How long tombstones stay after the first cleaning that met them.",
    "log.cleaner.enable": "Whether compacted logs are cleaned.",
    "log.cleaner.io.buffer.load.factor": "How much of the memory for keys is used before a pass ends.",
    "log.cleaner.io.buffer.size": (
        "How much of a log is read at a time, shared by `log.cleaner.threads`; 4 KB at least, and a batch that is "
        "larger is read whole. Nothing is buffered for writing."
    ),
    "log.cleaner.io.max.bytes.per.second": (
        "What cleaning may read and write, shared by `log.cleaner.threads`; at 0 or below no log is cleaned."
    ),
    "log.cleaner.max.compaction.lag.ms": "A record is cleaned after so long at the latest, and segments end in time.",
    "log.cleaner.min.cleanable.ratio": "A log is cleaned when more than this share of it is new.",
    "log.cleaner.min.compaction.lag.ms": "Records younger than this are not cleaned.",
    "log.cleaner.threads": (
        "How many logs are cleaned at a time, each in a worker process; at most `num.recovery.threads.per.data.dir`. "
        "At least 1; while the broker runs, at most halved or doubled at a time."
    ),
    "log.cleanup.policy": (
        "`delete` removes old segments, `compact` keeps the last record of each key, both do both; empty keeps all. "
        "What DeleteRecords deletes goes with any of them."
    ),
    "log.dir": "Used where `log.dirs` is not given.",
    "log.dirs": (
        "Where logs are kept: a directory, or several with commas between. The first has the cluster's metadata too."
    ),
    "log.flush.interval.messages": "Records that may be unflushed; producers and readers wait for the flush.",
    "log.flush.interval.ms": (
        "How long records may be unflushed; producers do not wait. `log.flush.scheduler.interval.ms` where not given."
    ),
    "log.flush.offset.checkpoint.interval.ms": "How often the checkpoint files are written.",
    "log.flush.scheduler.interval.ms": "Used where `log.flush.interval.ms` is not given.",
    "log.index.interval.bytes": "An index entry at most every so many bytes.",
    "log.index.size.max.bytes": "The size of an index file, and so how many entries a segment can have.",
    "log.initial.task.delay.ms": "When retention is looked at first after a start, if that is sooner than it would be.",
    "log.message.timestamp.after.max.ms": "How far a record's time may lie ahead of the broker's (INVALID_TIMESTAMP).",
    "log.message.timestamp.before.max.ms": "How far a record's time may lie behind the broker's (INVALID_TIMESTAMP).",
    "log.message.timestamp.type": "LogAppendTime: records get the broker's time.",
    "log.retention.bytes": "How large a partition may grow before its oldest files go; -1 is without limit.",
    "log.retention.check.interval.ms": "How often retention is looked at, for compacted topics too.",
    "log.retention.hours": "Used where neither `log.retention.ms` nor `log.retention.minutes` is given.",
    "log.retention.minutes": "Used where `log.retention.ms` is not given.",
    "log.retention.ms": "How long records are kept, by the newest of a file; -1 is for ever.",
    "log.roll.hours": "Used where `log.roll.ms` is not given.",
    "log.roll.jitter.hours": "Used where `log.roll.jitter.ms` is not given.",
    "log.roll.jitter.ms": "A log begins its new file up to this much earlier, drawn for each file.",
    "log.roll.ms": "A log begins a new file when a record is this much newer than the first one of the old.",
    "log.segment.bytes": "A log begins a new file before the old one grows past this.",
    "log.segment.delete.delay.ms": "How long a deleted file lies there as `.deleted`.",
    "max.connections": "How many connections are held at once; a further one waits to be accepted.",
    "max.connections.per.ip": "How many of them may come from one address; a further one is closed.",
    "max.connections.per.ip.overrides": "Other limits for some addresses: `host:count,host:count`.",
    "max.incremental.fetch.session.cache.slots": "How many fetch sessions are kept.",
    "message.max.bytes": "The largest record batch a producer may send (MESSAGE_TOO_LARGE).",
    "max.request.partition.size.limit": "How many partitions DescribeTopicPartitions answers with at most.",
    "metadata.log.max.record.bytes.between.snapshots": "How much the cluster's log grows between two snapshots of it.",
    "min.insync.replicas": "In-sync replicas that a write with acks=all needs (NOT_ENOUGH_REPLICAS).",
    "node.id": "This broker's id; a data directory belongs to one id for good.",
    "num.partitions": "Partitions of a topic that is created without a number.",
    "num.recovery.threads.per.data.dir": (
        "How many large logs are recovered at once after a crash, each in a process of its own."
    ),
    "num.replica.alter.log.dirs.threads": (
        "How many replicas move between directories at a time; as many as there are directories if it is not given."
    ),
    "offset.metadata.max.bytes": "How much metadata may go with a committed offset.",
    "offsets.load.buffer.size": "How much is read at once when a coordinator loads its groups and offsets.",
    "offsets.retention.check.interval.ms": "How often offsets and groups that are not needed any more are looked for.",
    "offsets.retention.minutes": "How long the offsets of a group without members are kept.",
    "offsets.topic.compression.codec": "What coordinators write batches with: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    "offsets.topic.num.partitions": "Partitions of `__consumer_offsets` when it is made.",
    "offsets.topic.replication.factor": "Replicas of `__consumer_offsets` when it is made; at most one a broker.",
    "offsets.topic.segment.bytes": "The segment size of `__consumer_offsets` when it is made.",
    "levada.disk.usage.warn.percent": (
        "How full the disk of a log directory may be before a line in the log warns of it; at 95 there is another."
    ),
    "levada.loop.held.warn.ms": (
        "For debugging: a line in the log, with the place in the code, for each turn of the event loop that takes "
        "longer; 0 is none."
    ),
    "levada.metrics.port": "Where metrics are served over HTTP; 0 is nowhere.",
    "levada.poison.buffers": (
        "For debugging: overwrite each request after it was handled, so that a view kept too long shows itself."
    ),
    "process.roles": "A file of a controller alone is refused: here every broker can be one.",
    "producer.id.expiration.check.interval.ms": "How often producers are forgotten that were silent for too long.",
    "producer.id.expiration.ms": "How long a silent producer is remembered.",
    "queued.max.request.bytes": "How much requests may hold in memory before reading stops; -1 is without limit.",
    "socket.request.max.bytes": "A larger request closes its connection.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": (
        "How often transactions are looked for that have been open for longer than their timeout."
    ),
    "transaction.max.timeout.ms": "The longest timeout that a producer may ask for (INVALID_TRANSACTION_TIMEOUT).",
    "transaction.partition.verification.enable": (
        "Whether a transaction's coordinator is asked before its first records in a partition are taken; for clients "
        "that leave adding partitions to the broker it always is."
    ),
    "transaction.remove.expired.transaction.cleanup.interval.ms": (
        "How often transactional ids that were not used for long are looked for."
    ),
    "transaction.state.log.load.buffer.size": "How much is read at once when a coordinator loads its transactions.",
    "transaction.state.log.min.isr": "The `min.insync.replicas` of `__transaction_state` when it is made.",
    "transaction.state.log.num.partitions": "Partitions of `__transaction_state` when it is made.",
    "transaction.state.log.replication.factor": (
        "Replicas of `__transaction_state` when it is made; at most one a broker."
    ),
    "transaction.state.log.segment.bytes": "The segment size of `__transaction_state` when it is made.",
    "transactional.id.expiration.ms": "How long a transactional id that is not used is remembered.",
    "zookeeper.connect": (
        "The ZooKeeper ensemble that keeps the cluster's metadata (`pip install 'levada[zookeeper]'`), with a path of "
        "its own behind it; `--coordinator` wins."
    ),
}

TOPIC_MEANINGS: dict[str, str] = {
    "cleanup.policy": BROKER_MEANINGS["log.cleanup.policy"],
    "compression.gzip.level": "The level where the topic's compression is gzip; -1 is the codec's own.",
    "compression.lz4.level": "The level where the topic's compression is lz4.",
    "compression.type": BROKER_MEANINGS["compression.type"],
    "compression.zstd.level": "The level where the topic's compression is zstd.",
    "delete.retention.ms": BROKER_MEANINGS["log.cleaner.delete.retention.ms"],
    "file.delete.delay.ms": BROKER_MEANINGS["log.segment.delete.delay.ms"],
    "flush.messages": BROKER_MEANINGS["log.flush.interval.messages"],
    "flush.ms": "How long records may be unflushed, which no producer waits for.",
    "index.interval.bytes": BROKER_MEANINGS["log.index.interval.bytes"],
    "internal.segment.bytes": "As `segment.bytes`, and stronger; for tests, which want smaller files than that allows.",
    "max.compaction.lag.ms": BROKER_MEANINGS["log.cleaner.max.compaction.lag.ms"],
    "max.message.bytes": BROKER_MEANINGS["message.max.bytes"],
    "message.timestamp.after.max.ms": BROKER_MEANINGS["log.message.timestamp.after.max.ms"],
    "message.timestamp.before.max.ms": BROKER_MEANINGS["log.message.timestamp.before.max.ms"],
    "message.timestamp.type": BROKER_MEANINGS["log.message.timestamp.type"],
    "min.cleanable.dirty.ratio": BROKER_MEANINGS["log.cleaner.min.cleanable.ratio"],
    "min.compaction.lag.ms": BROKER_MEANINGS["log.cleaner.min.compaction.lag.ms"],
    "min.insync.replicas": BROKER_MEANINGS["min.insync.replicas"],
    "retention.bytes": BROKER_MEANINGS["log.retention.bytes"],
    "retention.ms": BROKER_MEANINGS["log.retention.ms"],
    "segment.bytes": BROKER_MEANINGS["log.segment.bytes"],
    "segment.index.bytes": BROKER_MEANINGS["log.index.size.max.bytes"],
    "segment.jitter.ms": BROKER_MEANINGS["log.roll.jitter.ms"],
    "segment.ms": BROKER_MEANINGS["log.roll.ms"],
}

GROUP_MEANINGS: dict[str, str] = {
    "consumer.assignment.interval.ms": (
        "The group gets its next assignment not before this time has passed since its last (KIP-1263)."
    ),
    "consumer.heartbeat.interval.ms": "How often members are told to send heartbeats.",
    "consumer.session.timeout.ms": (
        "A member that is silent for so long is taken for dead; a warning is logged where it is below three heartbeat "
        "intervals."
    ),
}


def broker_meaning(name: str) -> str:
    return BROKER_MEANINGS.get(name) or NOTES.get(name, NO_EFFECT)


def topic_meaning(name: str) -> str:
    return TOPIC_MEANINGS.get(name, NO_EFFECT)


def group_meaning(name: str) -> str:
    return GROUP_MEANINGS.get(name, NO_EFFECT)
