"""What our tools do differently from Apache's: rows of docs/compatibility.md."""

INTRODUCTION = """
## Tools

Every tool prints what Apache's 4.3 prints, but for the order of lines that have none; `make interop` compares them,
against this broker and against Apache's. Known differences:

| tool | Apache | here |
| --- | --- | --- |
"""

DIFFERENCES = (
    ("all", "wrong usage prints all help, exit code 1", "one line, exit code 2"),
    ("all", "errors on stdout with a stack trace on stderr", "one line on stderr"),
    ("all", "`--bootstrap-server` is required", "`localhost:9092` where it is not given"),
    ("all", "a server that is not there is tried for a minute", "one line at once"),
    ("all", "`--bootstrap-controller` reaches a controller", "refused, with a line: brokers pass requests on"),
    ("`topics`, `configs`", "some lists in the order of a hash map", "sorted by name"),
    ("`topics`", "names of settings are checked by the tool, too", "by the broker alone"),
    ("`topics --alter`, `--delete`", "the first error is told", "every error, and how many topics succeeded"),
    ("`get-offsets --time`", "a number below -6 is sent, and the partition skipped", "refused, exit code 2"),
    ("`delete-records`", "names of Java classes in `error:`", "our own text"),
    ("`delete-records`", "an unknown topic is tried for `default.api.timeout.ms`", "given up after about 2 s"),
    ("`delete-records`, `topics --delete`", "one request", "50 partitions or topics a request, with progress"),
    ("`configs --add-config`", "may be given once", "may be repeated; values are not shown in errors"),
    ("`configs`", "a key both added and deleted is refused by the broker", "by the tool"),
    ("`configs`", "flags that make no sense together are passed over", "refused"),
    (
        "`broker-api-versions`",
        "shows every API that is advertised",
        "GroupCommit, which is ours alone, is only in `--json`",
    ),
    ("`leader-election`", "names of Java classes in lines of failures", "our own text"),
    ("`log-dirs`, `leader-election`", "partitions in the order of a hash map", "sorted"),
    (
        "`replica-verification`",
        "bytes of replicas are compared",
        "and the CRC of each batch, so one replica alone is checked",
    ),
    ("`replica-verification --time`", "a partition without a later record ends it", "begins at the partition's end"),
    ("`features describe --node-id`", "an unknown broker is waited for", "refused after about 2 s"),
    (
        "`consumer-groups`",
        "a malformed time, duration or CSV: a stack trace, exit code 0",
        "one line, exit code 1; 2 for numbers",
    ),
    ("`consumer-groups --json`", "is not there", "what a broker refuses is one line on stderr, exit code 1"),
    (
        "`consumer-groups --reset-offsets`",
        "groups before one that fails are reset already",
        "all is worked out before any is changed",
    ),
    ("`consumer-groups --reset-offsets`", "a time before 1970 fails", "counts as 1970"),
    ("`consumer-groups --reset-offsets`", "text behind a time is passed over", "refused"),
    ("`consumer-groups`", "warnings and hints on stdout", "on stderr"),
    ("`transactions`", "connection flags stand before the command", "behind it, too"),
    ("`transactions`", "an unknown broker or partition is waited for", "refused at once"),
    ("`console-producer`", "lines are text, written as UTF-8", "lines are bytes"),
    ("`console-producer`", "a record that could not be sent is logged, exit code 0", "one line, exit code 1"),
    ("`console-producer --line-reader`", "any class", "LineMessageReader"),
    (
        "`console-consumer`",
        "a topic that is not there is created",
        "it is not: a line says so and names the near one, and the tool waits for it",
    ),
    ("`console-consumer`", "errors of the consumer end it with exit code 0", "1"),
    ("`console-consumer`", "ByteArrayDeserializer prints a Java reference", "the bytes"),
    ("`console-consumer --formatter`", "any class", "those that come with Kafka; no ListDeserializer"),
    ("`producer-perf-test --throughput 0`", "hangs", "refused"),
    (
        "`producer-perf-test`",
        "records that failed are printed, exit code 0",
        "exit code 1; Ctrl-C prints the summary so far",
    ),
    ("tools that measure, `--print-metrics`", "all metrics of Java's clients", "those that ours have"),
    ("`consumer-perf-test`", "counts the whole last poll", "ends at `--num-records`"),
    ("`end-to-end-latency`", "sets `fetch.max.wait.ms=0`, and leaves a group behind", "neither"),
    ("`verifiable-consumer`", "counts the whole last poll", "ends at `--max-messages`"),
    ("`verifiable-producer`", "`message` is a Java exception's", "our own text"),
)
"""The tool, what Apache's does, what ours does."""


def section() -> str:
    return INTRODUCTION + "".join(f"| {tool} | {theirs} | {ours} |\n" for tool, theirs, ours in DIFFERENCES)
