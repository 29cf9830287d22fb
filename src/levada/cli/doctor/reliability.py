"""The reliability check: which settings of topics, brokers and clients let acknowledged records be lost."""

from collections.abc import Iterable, Iterator, Mapping

from levada.cli.doctor.findings import Finding, note, risk

Settings = Mapping[str, str | None]

SAFE_REPLICAS = 3
SAFE_IN_SYNC = 2
UNCLEAN = "a replica that lacks acknowledged records may become leader, and they are gone"
ALONE = "acks=all is satisfied by the leader alone, whose death then loses acknowledged records"


def check_topic(name: str, replicas: int, settings: Settings, *, is_alone: bool = False) -> Iterator[Finding]:
    """A topic by the replicas of its partitions (the fewest) and its settings.

    Where there is one broker, no setting gives a record a second place: what is said about that is no fault of them.
    """
    where = f"topic {name}"
    replicated = note if is_alone else risk
    if replicas == 1:
        yield replicated(
            where,
            "replication.factor=1: the records live on one broker and are lost with its disk",
            f"give it {SAFE_REPLICAS} replicas with `levada reassign-partitions`, and new topics by"
            f" default.replication.factor={SAFE_REPLICAS}",
        )
    in_sync = _number(settings, "min.insync.replicas", 1)
    if in_sync <= 1:
        yield replicated(where, f"min.insync.replicas={in_sync}: {ALONE}", f"set min.insync.replicas={SAFE_IN_SYNC}")
    elif in_sync >= replicas > 1:
        yield note(
            where,
            f"min.insync.replicas={in_sync} of {replicas} replicas: the loss of any one broker stops writes",
            f"set min.insync.replicas={replicas - 1} or add a replica",
        )
    if _is_on(settings, "unclean.leader.election.enable"):
        yield risk(where, f"unclean.leader.election.enable=true: {UNCLEAN}", "set unclean.leader.election.enable=false")


def check_broker(broker_id: int, settings: Settings, *, is_alone: bool = False) -> Iterator[Finding]:
    """What a broker gives to topics that say nothing themselves, and to the internal ones."""
    where = f"broker {broker_id}"
    replicated = note if is_alone else risk
    for key, loss in (
        ("default.replication.factor", "new topics live on one broker each"),
        ("offsets.topic.replication.factor", "committed offsets are lost with one broker"),
        ("transaction.state.log.replication.factor", "the state of transactions is lost with one broker"),
    ):
        # -1 leaves it to the cluster's own default, which is told under default.replication.factor.
        if _number(settings, key, 1) in (0, 1):
            yield replicated(where, f"{key}={settings.get(key) or 1}: {loss}", f"set {key}={SAFE_REPLICAS}")
    for key in ("min.insync.replicas", "transaction.state.log.min.isr"):
        if _number(settings, key, 1) <= 1:
            yield replicated(where, f"{key}={settings.get(key) or 1}: {ALONE}", f"set {key}={SAFE_IN_SYNC}")
    if _is_on(settings, "unclean.leader.election.enable"):
        yield risk(where, f"unclean.leader.election.enable=true: {UNCLEAN}", "set unclean.leader.election.enable=false")


def check_racks(racks: Iterable[str | None]) -> Iterator[Finding]:
    """Whether replicas can be kept apart."""
    known = list(racks)
    if len(known) > 1 and len(set(known)) < len(known):
        yield note(
            "cluster",
            f"{len(known)} brokers in {len(set(known))} racks: all replicas of a partition may fail together",
            "set broker.rack on each broker to the machine or room that it stands in",
        )


def check_producer(where: str, given: Settings) -> Iterator[Finding]:
    """A producer's settings; what is not given has Kafka's default."""
    acks_key = "request.required.acks" if given.get("request.required.acks") else "acks"
    acks = (given.get(acks_key) or "all").strip()
    if acks not in ("all", "-1"):
        loss = "no broker confirms a record" if acks == "0" else "only the leader confirms it, and may die with it"
        yield risk(where, f"{acks_key}={acks}: {loss}", "set acks=all")
    retries_key = "message.send.max.retries" if given.get("message.send.max.retries") else "retries"
    retries = _number(given, retries_key, 1)
    if retries == 0:
        yield risk(where, f"{retries_key}=0: what fails once is given up", "leave retries at its default of 2147483647")
    if given.get("queue.enqueue.timeout.ms") == "0":
        yield risk(
            where,
            "queue.enqueue.timeout.ms=0: records are dropped while the buffer is full",
            "set max.block.ms to the time that a send may wait",
        )
    is_idempotent = _is_on(given, "enable.idempotence", default=acks in ("all", "-1") and retries != 0)
    if not is_idempotent:
        yield risk(
            where,
            "enable.idempotence=false: a record whose confirmation was lost is sent twice, and later ones may overtake",
            "set enable.idempotence=true, which needs acks=all and retries",
        )
    timeout_ms = _number(given, "delivery.timeout.ms", 120_000)
    if retries and timeout_ms < 30_000:
        yield note(
            where,
            f"delivery.timeout.ms={timeout_ms}: records are given up before a broker that restarts is back",
            "set delivery.timeout.ms=120000 or more",
        )


def check_consumer(where: str, given: Settings) -> Iterator[Finding]:
    """A consumer's settings; what is not given has Kafka's default."""
    if not given.get("group.id"):
        yield note(where, "group.id is not set: no position is kept between two runs", "set group.id")
    elif _is_on(given, "enable.auto.commit", default=True):
        yield risk(
            where,
            "enable.auto.commit=true: positions are committed by the clock, before records are processed,"
            " which are then skipped after a crash",
            "set enable.auto.commit=false and commit after processing",
        )
    reset = given.get("auto.offset.reset") or "latest"
    if reset == "latest":
        yield risk(
            where,
            "auto.offset.reset=latest: without a committed position, records that are there already are skipped",
            "set auto.offset.reset=earliest, or none to be told",
        )
    session_ms = _number(given, "session.timeout.ms", 45_000)
    heartbeat_ms = _number(given, "heartbeat.interval.ms", 3_000)
    if session_ms < 3 * heartbeat_ms:
        yield note(
            where,
            f"session.timeout.ms={session_ms} is less than three times heartbeat.interval.ms={heartbeat_ms}:"
            " one lost heartbeat throws a member out",
            f"set session.timeout.ms={3 * heartbeat_ms} or more",
        )


def _number(settings: Settings, key: str, default: int) -> int:
    text = (settings.get(key) or "").strip()
    return int(text) if text.lstrip("-").isdigit() else default


def _is_on(settings: Settings, key: str, *, default: bool = False) -> bool:
    text = (settings.get(key) or "").strip().lower()
    return default if not text else text == "true"
