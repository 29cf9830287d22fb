"""`levada transactions`."""

from tests.tools.group_acts import topics
from tests.tools.scenario import Act, File, Mask, Scenario, Step
from tests.tools.transaction_acts import hanging_transaction, transaction

TOOL = "transactions --bootstrap-server {server}"
ABORT = f"{TOOL} abort --topic orders --partition 0"

PRODUCER = r"\d+ *\t\d+ *"
"""Its id and epoch: on a broker that was there before they go on where they stood."""
MASKS: tuple[Mask, ...] = (
    (r"\b(?!1704067200000)1\d{12}\b", "TIME"),
    (rf"(?m)^{PRODUCER}(\t-?\d+ *\t-?\d+ *\t(?:\d{{13}}|TIME)\t)", r"ID\tEPOCH\1"),
    (rf"(?m)^(\d+ *\t[\w-]+ *\t){PRODUCER}(\t[A-Z])", r"\1ID\tEPOCH\2"),
    (r"(?m)^([\w-]+ *\t\d+ *\t)\d+ *(\t[A-Z])", r"\1ID\2"),
    (r"\tTIME +\t\d+ +\t", r"\tTIME\tMS\t"),
    (r"(?m)^([a-z].*\t1704067200000\t)\d+", r"\1MINUTES"),
    (r'("(?:producer_id|producer_epoch|start_ms|duration_ms|duration_minutes|last_timestamp_ms)": )\w+', r"\1N"),
)

LOOKING: list[Step | Act | File] = [
    topics(orders=[0, 0], payments=[0]),
    transaction("copier", "orders", 0, 1),
    transaction("mover", "payments", 0, then="commit"),
    transaction("loser", "payments", 0, then="abort"),
    File("client.properties", "request.timeout.ms=9000\n"),
    Step(f"{TOOL} list", any_order=True),
    Step(f"{TOOL} --command-config {{directory}}/client.properties list --duration-filter -1", any_order=True),
    Step(f"{TOOL} list --duration-filter 0", any_order=True),
    Step(f"{TOOL} list --duration-filter 3600000"),
    Step(f"{TOOL} list --transactional-id-pattern co.*"),
    Step(f"{TOOL} list --transactional-id-pattern o"),
    Step(f"{TOOL} list --json", only_ours=True),
    Step("transactions list --transactional-id-pattern mover", only_ours=True),
    Step(f"{TOOL} describe --transactional-id copier", masks=((r"orders-1,orders-0", "orders-0,orders-1"),)),
    Step(f"{TOOL} describe --transactional-id mover"),
    Step(f"{TOOL} describe --transactional-id copier --json", only_ours=True),
    Step(f"{TOOL} describe-producers --topic orders --partition 0"),
    Step(f"{TOOL} describe-producers --topic orders --partition 0 --broker-id 1"),
    Step(f"{TOOL} describe-producers --topic payments --partition 0", any_order=True),
    Step(f"{TOOL} describe-producers --topic orders --partition 1 --json", only_ours=True),
    Step(f"{TOOL} forceTerminateTransaction --transactionalId copier"),
    Step(f"{TOOL} list --transactional-id-pattern copier"),
]

HANGING: list[Step | Act | File] = [
    topics(orders=[0, 2], payments=[0]),
    transaction("copier", "payments", 0),
    hanging_transaction("orders", 0, 900),
    hanging_transaction("orders", 1, 901),
    Step(f"{TOOL} find-hanging --topic orders", any_order=True),
    Step(f"{TOOL} find-hanging --topic orders --partition 1"),
    Step(f"{TOOL} find-hanging --broker-id 1 --max-transaction-timeout 0", any_order=True),
    Step(f"{TOOL} find-hanging --broker-id 1 --topic payments"),
    Step(f"{TOOL} find-hanging --broker-id 1 --topic orders --max-transaction-timeout 99999999"),
    Step(f"{TOOL} find-hanging --topic orders --json", only_ours=True),
    Step(f"{ABORT} --start-offset 0"),
    Step(f"{TOOL} find-hanging --topic orders"),
    Step(f"{TOOL} abort --topic orders --partition 1 --producer-id 901 --producer-epoch 0 --coordinator-epoch -1"),
    Step(f"{TOOL} find-hanging --topic orders"),
    Step(f"{TOOL} describe-producers --topic orders --partition 0"),
]

REFUSING: list[Step | Act | File] = [
    topics(orders=[1]),
    Step(TOOL, fails=True),
    Step(f"{TOOL} dance", fails=True),
    Step(f"{TOOL} list --zookeeper localhost:1", fails=True),
    Step(f"{TOOL} list --duration-filter long", fails=True),
    Step(f"{TOOL} list --transactional-id-pattern '['", fails=True),
    Step(f"{TOOL} describe", fails=True),
    Step(f"{TOOL} describe --transactional-id absent", fails=True),
    Step(f"{TOOL} describe-producers --topic orders", fails=True),
    Step(f"{TOOL} describe-producers --topic nowhere --partition 0", fails=True),
    # Apache's tool waits a minute for the partition, and for the broker.
    Step(f"{TOOL} describe-producers --topic orders --partition 7", fails=True, only_ours=True),
    Step(f"{TOOL} describe-producers --topic orders --partition 0 --broker-id 9", fails=True, only_ours=True),
    Step(f"{TOOL} find-hanging --broker-id 9", fails=True, only_ours=True),
    Step(f"{TOOL} find-hanging", fails=True),
    Step(f"{TOOL} find-hanging --partition 0 --broker-id 1", fails=True),
    Step(f"{TOOL} find-hanging --topic nowhere", fails=True),
    Step(ABORT, fails=True),
    Step(f"{ABORT} --producer-id 1", fails=True),
    Step(f"{ABORT} --producer-id 1 --producer-epoch 99999 --coordinator-epoch 0", fails=True),
    Step(f"{ABORT} --start-offset 0", fails=True),
    Step(f"{TOOL} abort --topic nowhere --partition 0 --start-offset 0", fails=True),
    Step(f"{TOOL} forceTerminateTransaction", fails=True),
]  # fmt: skip

SCENARIOS = [
    Scenario("transactions", "looking", LOOKING, MASKS),
    Scenario("transactions", "hanging", HANGING, MASKS),
    Scenario("transactions", "refusing", REFUSING, MASKS),
]
