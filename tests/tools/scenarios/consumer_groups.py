"""`levada consumer-groups`."""

from tests.tools.group_acts import committed, members, topics, workers
from tests.tools.scenario import Act, File, Mask, Scenario, Step

MEMBER_ID: Mask = (r"(?<![\w.-])[A-Za-z0-9_-]{22}(?![\w-])", "MEMBER-ID-OF-22-LETTERS"[:22])
"""Of the consumer protocol, whose members make their own."""

COORDINATOR: Mask = (r"HOST:PORT  \((\d+)\) +", r"HOST:PORT  (\1)  ")
"""Ports have four digits or five, so the column is not always as wide."""

MASKS = (MEMBER_ID, COORDINATOR, (r'"port": \d+', '"port": PORT'))

RECORDS = topics(orders=[5, 3], payments=[4], empty=[0])
BILLING = committed("billing", {("orders", 0): 2, ("orders", 1): 3, ("payments", 0): 1})
AUDIT = committed("audit", {("orders", 0): 5})

CLASSIC = {"client_id": "old"}
STATIC = {"client_id": "fixed", "group_instance_id": "desk-1"}
MODERN = {"client_id": "new", "group_protocol": "consumer"}

TOOL = "consumer-groups"
LIST = f"{TOOL} --list"
DESCRIBE = f"{TOOL} --describe"
RESET = f"{TOOL} --reset-offsets"
SHOWN = f"{RESET} --dry-run --group billing --topic orders"
BILLED = f"{DESCRIBE} --group billing"


LISTING: list[Step | Act | File] = [
    Step(LIST),
    RECORDS, BILLING, AUDIT,
    members("readers", CLASSIC, topics=["orders"]),
    members("modern", MODERN, topics=["orders"]),
    workers("connectors", "connect"),
    Step(LIST, any_order=True),
    Step(f"{LIST} --state", any_order=True),
    Step(f"{LIST} --state Stable", any_order=True),
    Step(f"{LIST} --state=' stable,EMPTY '", any_order=True),
    Step(f"{LIST} --state dead"),
    Step(f"{LIST} --type", any_order=True),
    Step(f"{LIST} --type consumer"),
    Step(f"{LIST} --type Classic --state empty", any_order=True),
    Step(f"{LIST} --type --state --timeout 20000", any_order=True),
    File("client.properties", "request.timeout.ms=9000\n"),
    Step(f"{LIST} --command-config {{directory}}/client.properties", any_order=True),
    Step(f"{LIST} --json --command-property client.id=me", only_ours=True),
]  # fmt: skip

DESCRIBING: list[Step | Act | File] = [
    RECORDS, BILLING, AUDIT,
    members("readers", STATIC, topics=["orders", "payments"]),
    members("modern", MODERN, topics=["orders"]),
    members("matching", MODERN, pattern="pay.*"),
    committed("readers-of-a-very-long-name", {("orders", 0): 0, ("orders", 1): 99}),
    workers("connectors", "connect"),
    *(
        Step(f"{DESCRIBE} --group {group}{view}")
        for group in ("billing", "readers", "modern")
        for view in ("", " --verbose", " --members", " --members --verbose", " --state", " --state --verbose")
    ),
    Step(f"{DESCRIBE} --group matching --members --verbose"),
    Step(f"{DESCRIBE} --group readers-of-a-very-long-name"),
    Step(f"{DESCRIBE} --group readers-of-a-very-long-name --state"),
    Step(f"{DESCRIBE} --group readers --offsets --timeout 20000"),
    Step(f"{DESCRIBE} --group readers --group billing --offsets"),
    Step(f"{DESCRIBE} --all-groups"),
    Step(f"{DESCRIBE} --all-groups --state"),
    Step(f"{DESCRIBE} --all-groups --members"),
    Step(f"{DESCRIBE} --group absent"),
    Step(f"{DESCRIBE} --group absent --members"),
    Step(f"{DESCRIBE} --group absent --state"),
    Step(f"{DESCRIBE} --group billing --group absent"),
    Step(f"{DESCRIBE} --group connectors"),
    Step(f"{DESCRIBE} --group readers --json", only_ours=True),
    Step(f"{DESCRIBE} --group billing --group modern --members --json", only_ours=True),
    Step(f"{DESCRIBE} --group matching --state --json", only_ours=True),
    Step(f"{DESCRIBE} --group absent --json", only_ours=True, fails=True),
]  # fmt: skip

UPGRADING: list[Step | Act | File] = [
    topics(orders=[5, 3], payments=[4]),
    # Nothing of the old member's goes to the new one: to see such a thing takes a heartbeat, of five seconds.
    members(
        "mixed",
        CLASSIC | {"heartbeat_interval_ms": 200},
        MODERN,
        topics={"old": ["orders"], "new": ["payments"]},
    ),
    Step(f"{DESCRIBE} --group mixed"),
    Step(f"{DESCRIBE} --group mixed --members --verbose", any_order=True),
    Step(f"{DESCRIBE} --group mixed --state --verbose"),
]

RESETTING: list[Step | Act | File] = [
    RECORDS, BILLING, AUDIT,
    members("readers", CLASSIC, topics=["orders"]),
    Step(f"{RESET} --group billing --topic orders --to-earliest"),
    Step(f"{SHOWN} --to-earliest"),
    Step(f"{SHOWN} --to-latest"),
    Step(f"{SHOWN} --to-current"),
    Step(f"{SHOWN} --topic empty --to-current", any_order=True),
    Step(f"{SHOWN} --to-offset 4"),
    Step(f"{SHOWN} --to-offset -1"),
    Step(f"{SHOWN} --shift-by 1"),
    Step(f"{SHOWN} --shift-by -100"),
    Step(f"{SHOWN} --to-datetime 2024-01-01T00:00:02.000"),
    Step(f"{SHOWN} --to-datetime 2024-01-01T01:00:01.500+01:00"),
    Step(f"{SHOWN} --to-datetime 2023-12-31T23:00:01.500-01"),
    Step(f"{SHOWN} --to-datetime 2024-1-1T0:0:1.0Z"),
    Step(f"{SHOWN} --to-datetime 2030-01-01T00:00:00.000"),
    Step(f"{SHOWN} --by-duration P10000D"),
    Step(f"{SHOWN} --by-duration pt1h2m3.5s"),
    Step(f"{RESET} --dry-run --group billing --topic orders:1 --topic payments --to-latest", any_order=True),
    Step(f"{RESET} --dry-run --group billing --all-topics --to-latest", any_order=True),
    Step(f"{RESET} --dry-run --group newcomer --topic empty --by-duration P1D"),
    Step(f"{RESET} --dry-run --group newcomer --all-topics --to-latest"),
    Step(f"{RESET} --dry-run --group readers --topic orders --to-latest"),
    Step(f"{RESET} --dry-run --all-groups --all-topics --to-earliest", any_order=True),
    Step(f"{SHOWN} --to-earliest --export"),
    Step(f"{RESET} --dry-run --group billing --group audit --topic orders --to-latest --export", any_order=True),
    Step(f"{RESET} --dry-run --group newcomer --all-topics --to-latest --export"),
    Step(BILLED),
    Step(f"{RESET} --execute --group billing --topic orders --to-earliest"),
    Step(BILLED),
    Step(f"{RESET} --execute --group billing --group newcomer --topic payments --to-latest", any_order=True),
    Step(f"{RESET} --execute --group readers --topic orders --to-latest --timeout 20000"),
    Step(f"{RESET} --execute --group audit --all-topics --shift-by -2 --export"),
    Step(f"{DESCRIBE} --all-groups"),
]  # fmt: skip

FROM_FILES: list[Step | Act | File] = [
    RECORDS, BILLING, AUDIT,
    File("plain.csv", "orders,0,4\norders,1,1\n"),
    File("quoted.csv", '"orders",0,3\r\npayments, 0 ,99\r\n'),
    File("groups.csv", "billing,orders,0,3\naudit,orders,1,0\n"),
    Step(f"{RESET} --dry-run --group billing --from-file {{directory}}/plain.csv"),
    Step(f"{RESET} --dry-run --group billing --from-file {{directory}}/quoted.csv", any_order=True),
    Step(f"{RESET} --dry-run --group billing --from-file {{directory}}/groups.csv"),
    Step(f"{RESET} --dry-run --all-groups --from-file {{directory}}/groups.csv", any_order=True),
    Step(f"{RESET} --dry-run --group stranger --from-file {{directory}}/groups.csv"),
    Step(f"{RESET} --execute --group billing --from-file {{directory}}/plain.csv"),
    Step(f"{RESET} --execute --group billing --group audit --from-file {{directory}}/groups.csv", any_order=True),
    Step(f"{DESCRIBE} --all-groups"),
]  # fmt: skip

DELETING: list[Step | Act | File] = [
    RECORDS, BILLING, AUDIT,
    members("readers", CLASSIC, topics=["orders"]),
    Step(f"{TOOL} --delete-offsets --group billing --topic orders:0"),
    Step(BILLED),
    Step(f"{TOOL} --delete-offsets --group billing --topic orders --topic payments:0"),
    Step(f"{TOOL} --delete-offsets --group audit --topic orders:7"),
    Step(f"{TOOL} --delete-offsets --group audit --topic nowhere"),
    Step(f"{TOOL} --delete-offsets --group audit --topic nowhere --topic orders:0"),
    Step(f"{TOOL} --delete-offsets --group absent --topic orders"),
    Step(f"{TOOL} --delete-offsets --group readers --topic orders"),
    Step(f"{TOOL} --delete-offsets --group readers --topic payments"),
    Step(f"{TOOL} --delete --group readers"),
    Step(f"{TOOL} --delete --group absent"),
    BILLING, AUDIT,
    Step(f"{TOOL} --delete --group billing --group readers"),
    committed("spare", {("orders", 0): 1}),
    Step(f"{TOOL} --delete --group audit --timeout 20000"),
    Step(LIST, any_order=True),
    Step(f"{TOOL} --delete --group spare"),
    Step(f"{TOOL} --delete --all-groups"),
]  # fmt: skip

REFUSING: list[Step | Act | File] = [
    RECORDS, BILLING,
    Step(TOOL, fails=True),
    Step(f"{LIST} --describe --group billing", fails=True),
    Step(f"{LIST} --group billing", fails=True),
    Step(f"{LIST} --state asleep", fails=True),
    Step(f"{LIST} --type share", fails=True),
    Step(f"{LIST} --members", fails=True),
    Step(f"{LIST} --zookeeper localhost:1", fails=True),
    Step(DESCRIBE, fails=True),
    Step(f"{BILLED} --all-groups", fails=True),
    Step(f"{BILLED} --members --offsets", fails=True),
    Step(f"{BILLED} --state stable", fails=True),
    Step(f"{BILLED} --topic orders", fails=True),
    Step(f"{TOOL} --delete", fails=True),
    Step(f"{TOOL} --delete --group billing --topic orders", fails=True),
    Step(f"{TOOL} --delete-offsets --group billing", fails=True),
    Step(f"{RESET} --topic orders --to-latest", fails=True),
    Step(f"{RESET} --dry-run --group billing --to-latest", fails=True),
    Step(SHOWN, fails=True),
    Step(f"{SHOWN} --to-latest --to-earliest", fails=True),
    Step(f"{SHOWN} --execute --to-latest", fails=True),
    Step(f"{SHOWN}:x --to-latest", fails=True),
    Step(f"{SHOWN}:0:1 --to-latest", fails=True),
    Step(f"{SHOWN} --shift-by many", fails=True, only_ours=True),
    Step(f"{SHOWN} --topic empty --shift-by 1", fails=True),
    # With exit code 0, since Apache's tool has it so.
    Step(f"{SHOWN}:5 --to-latest"),
    Step(f"{SHOWN} --topic nowhere --to-latest"),
    # Exit code 0 and a stack trace with Apache's tool.
    Step(f"{SHOWN} --to-datetime yesterday", fails=True, only_ours=True),
    Step(f"{SHOWN} --to-datetime 2024-01-01T00:00:00", fails=True, only_ours=True),
    Step(f"{SHOWN} --to-datetime 2024-02-30T00:00:00.000", fails=True, only_ours=True),
    Step(f"{SHOWN} --by-duration 1h", fails=True, only_ours=True),
    Step(f"{RESET} --execute --group billing --from-file {{directory}}/nothing.csv", fails=True, only_ours=True),
    File("broken.csv", "orders,0,1\norders,one,1\n"),
    Step(f"{RESET} --execute --group billing --from-file {{directory}}/broken.csv", fails=True, only_ours=True),
    # Apache's tool has the name of a Java exception in front.
    Step(f"{SHOWN} --topic nowhere:0 --to-latest", only_ours=True),
    File("unknown.csv", "orders,0,1\nnowhere,0,1\n"),
    Step(f"{RESET} --execute --group billing --from-file {{directory}}/unknown.csv", only_ours=True),
    Step(BILLED),
]  # fmt: skip

EXPRESSIONS = [
    Step(f"{TOOL} --validate-regex {regex}")
    for regex in ("'pay.*'", "'[a-'", "'(a'", "'a**'", "'*a'", "'a{2000}'", r"'\8'", "'a)'", "'(?=a)'", "''", "'a\\'")
]

SCENARIOS = [
    Scenario(TOOL, "listing", LISTING, MASKS),
    Scenario(TOOL, "describing", DESCRIBING, MASKS),
    Scenario(TOOL, "upgrading", UPGRADING, MASKS),
    Scenario(TOOL, "resetting", RESETTING, MASKS),
    Scenario(TOOL, "resetting-from-files", FROM_FILES, MASKS),
    Scenario(TOOL, "deleting", DELETING, MASKS),
    Scenario(TOOL, "refusing", REFUSING, MASKS),
    Scenario(TOOL, "expressions", EXPRESSIONS),
]
