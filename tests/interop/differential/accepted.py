"""Where Apache's broker and ours differ: what is meant to be so, and what is still to be put right."""

from tests.interop.differential.answers import ABSENT
from tests.interop.differential.comparison import Accepted

_CONFIGS = "IncrementalAlterConfigs of topics"
_BROKER_CONFIGS = "IncrementalAlterConfigs of brokers"

_GROUP_CONFIGS = "IncrementalAlterConfigs of groups"

_NODE_KEYS = (
    "advertised.listeners",
    "controller.listener.names",
    "controller.quorum.voters",
    "listeners",
    "log.dirs",
    "process.roles",
)
"""What each of the two processes was told about itself; ours also says what it advertises, where Apache has null."""

_NODES = tuple(
    Accepted(table, "*", f"results[4:1].configs[{key}].*", "two nodes are started with two addresses and directories")
    for table in ("DescribeConfigs", _BROKER_CONFIGS)
    for key in _NODE_KEYS
)

_CRASHES = "Apache stumbles over it with an error of its own; ours names the fault"

_STUCK = "Apache never answers a member with an unreadable subscription or a protocol named twice; ours lets it in"

_MUTE = "a refusal of ours says nothing about the group"

_REPLACED = "an older instance aborts its successor's transaction at Apache's; ours refuses it (docs/compatibility.md)"

_ZOMBIE = "Apache takes an older instance for its classic successor; ours fences it (docs/compatibility.md)"

_RECALLED = "Apache knows the last batch of a producer after a restart; ours knows those before it too"

MEANT: tuple[Accepted, ...] = (
    *_NODES,
    Accepted("ApiVersions", "*", "api_keys[*]", "this API is not served yet", ours=ABSENT),
    Accepted("ApiVersions", "named software", "api_keys[32000]", "an API of our own", apache=ABSENT),
    Accepted("ApiVersions", "*", "*_features[*]", "the feature belongs to APIs that are not served yet", ours=ABSENT),
    Accepted("Metadata", "null name without id", "*", _CRASHES),
    Accepted("JoinGroup", "*garbage", "*", _STUCK),
    Accepted("JoinGroup", "*twice", "*", _STUCK),
    Accepted("ListGroups", "*", "groups[garbage-3]*", _STUCK),
    Accepted("ListGroups", "*", "groups[twice-3]*", _STUCK),
    Accepted("More than fits", "returned", "generation_id", _MUTE, ours="-1"),
    Accepted("More than fits", "returned", "leader", _MUTE, ours="''"),
    Accepted("More than fits", "returned", "protocol_*", _MUTE, ours="None"),
    Accepted(
        "Metadata",
        "creation of a*name",
        "topics[*].*",
        "Apache creates in the background and lets the client ask again; ours answers when it is done",
    ),
    Accepted(
        "CreateTopics",
        "collision in one request",
        "topics[made_c*",
        "ours compares a name with those before it in the request too; Apache lets them collide",
    ),
    Accepted("CreatePartitions", "10001 more", "results[more-a].error_*", _CRASHES),
    Accepted("DescribeConfigs", "*", "results[4:1].configs[levada.*]", "a key of our own", apache=ABSENT),
    Accepted(_BROKER_CONFIGS, "*", "results[4:1].configs[levada.*]", "a key of our own", apache=ABSENT),
    Accepted("DescribeConfigs", "kind *", "results[*].error_message", "ours says which kind it does not know"),
    Accepted(_CONFIGS, "* operation", "responses[*].error_*", _CRASHES),
    Accepted("Loggers", "unknown operation", "responses[*].error_*", _CRASHES),
    Accepted(_GROUP_CONFIGS, "two bad values", "*.error_message", "ours names the first by the alphabet"),
    Accepted(_GROUP_CONFIGS, "null without a name", "*.error_message", "of two faults ours names the other"),
    Accepted("AlterConfigs", "a topic twice", "*", "Apache never answers; ours refuses"),
    Accepted(_BROKER_CONFIGS, "two read-only", "responses[*].error_message", "Apache names keys in no order"),
    Accepted(_BROKER_CONFIGS, "connections by a wrong list", "responses[*].error_message", _CRASHES),
    Accepted("Produce", "*", "*.error_message", "Apache leaves it to the code; ours says what is wrong", apache="None"),
    Accepted("After a restart", "sequence *", "*.error_message", "as in Produce", apache="None"),
    Accepted("After a restart", "sequence 2", "*.error_code", _RECALLED, apache="45", ours="0"),
    Accepted("After a restart", "sequence 2", "*.base_offset", _RECALLED, apache="-1"),
    Accepted("Transactions", "*records*", "*.error_message", "as in Produce", apache="None"),
    Accepted("Transactions", "replaced, old: the older one", "error_code", _REPLACED, apache="51", ours="47"),
    Accepted("Transactions", "replaced, *: the older one", "error_code", _REPLACED, apache="51", ours="90"),
    Accepted("Transactions", "replaced, *: state*", "transaction_states[*].*", _REPLACED),
    Accepted("Transactions", "replaced, implicit: the newer one commits", "*", _REPLACED, apache="48", ours="0"),
    Accepted("Transactions", "replaced, implicit: the newer one commits", "producer_*", _REPLACED, apache="-1"),
    Accepted("Transactions", "replaced, *: the newer one commits", "error_code", _REPLACED, apache="90", ours="0"),
    Accepted("Transactions", "zombie: abort by the older one", "error_code", _ZOMBIE, apache="48", ours="90"),
    Accepted("Transactions", "zombie: commit by the older one", "error_code", _ZOMBIE, apache="0", ours="90"),
    Accepted("Transactions", "zombie: commit by the older one", "producer_*", _ZOMBIE, ours="-1"),
    Accepted("Transactions of strangers", "Produce: *", "*.error_message", "as in Produce", apache="None"),
    Accepted("Produce", "broken: length *", "*.error_message", "the same fault in other words"),
    Accepted("Produce", "broken: codec *", "*.error_code", _CRASHES, apache="-1", ours="76"),
    Accepted("Produce", "null", "*", "Apache never answers; ours refuses"),
    Accepted("Produce", "stamped by both", "*.record_errors[0].*", "ours does not print the record"),
    Accepted("ListOffsets", "unknown isolation", "*", _CRASHES),
    Accepted("Fetch", "negative room in the partition", "*", "Apache stumbles over it; for ours there is no room"),
    Accepted(_BROKER_CONFIGS, "cleaners: none", "*.error_message", "ours says what is wrong", apache="'/ by zero'"),
)

OPEN: tuple[Accepted, ...] = (
    Accepted(
        "After a restart", "sequence 6", "*.log_append_time_ms", "a repeated batch should be answered with its time"
    ),
    Accepted(_BROKER_CONFIGS, "*threads*", "*", "thread counts should at most halve or double"),
    Accepted(
        "Produce", "*", "*.log_start_offset", "refusals after the log was found should tell it", apache="0", ours="-1"
    ),
    Accepted(
        "Produce",
        "broken: transactional without a producer",
        "*.error_code",
        "should be TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    ),
    Accepted("Produce", "odd: a batch and a byte", "*", "what follows the batch and is none should be ignored"),
    Accepted("Produce", "odd: ???? that is none", "*", "compressed records should be opened before they are stored"),
    Accepted("Produce", "odd: too old inside, compressed", "*", "times inside a compressed batch should be checked"),
    Accepted("Produce", "sequence: *", "*.error_code", "should be OUT_OF_ORDER_SEQUENCE_NUMBER", "45", "46"),
    Accepted("Produce", "*", "*.log_append_time_ms", "a repeated batch should be answered with its time", ours="-1"),
)
"""Each says what ours should do; the change that does it removes the line, and the test insists on that."""

ACCEPTED = (*MEANT, *OPEN)
