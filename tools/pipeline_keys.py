"""Writes docs/pipelines-keys.md from what a pipeline's file is checked with.

`python -m tools.pipeline_keys [--check]`
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from levada.spark.pipeline import values
from levada.spark.pipeline.definition import REQUIRED, SINK_VALUES, SINKS, SOURCES, STEP_VALUES, STEPS, TOP
from levada.spark.pipeline.rules import RULES
from levada.spark.pipeline.sinks.console import DEFAULT_ROWS
from levada.spark.pipeline.sinks.database import DEFAULT_RETRY_S
from levada.spark.pipeline.sources.files import DEFAULT_MAX_FILES
from levada.spark.pipeline.sources.table import DEFAULT_MAX_ROWS, DEFAULT_POLL_S
from levada.spark.pipeline.values import Choice, Kind
from levada.spark.rows.registry.address import DEFAULT_WAIT

PAGE = Path(__file__).parents[1] / "docs" / "pipelines-keys.md"

HEAD = """\
# Keys of a pipeline's file

Generated (`make docs`) from what `levada pipeline` checks a file with; a test keeps it current.
[Pipelines](pipelines.md#levada-pipeline) explains them.

A source, a step or a sink is a mapping under a name of its own; the key in **bold** says of which kind it is. A key
that is not known is refused with the nearest one that is, a key that is there twice with its lines. `${NAME}` in any
text is the environment's value, so that passwords need not be in the file. A time is text such as `10 minutes` or
`90s`, or a number of seconds.

## The file
"""

TABLE = "\n| key | value | meaning |\n| --- | --- | --- |\n"

KINDS: Mapping[Kind, str] = {
    values.text: "text",
    values.name: "letters, digits, `.`, `_`, `-`",
    values.texts: "text, or a list of texts",
    values.flag: "`true` or `false`",
    values.registry: "`true`, or an address",
    values.positive: "a whole number above 0",
    values.duration: "a time",
    values.seconds: "a time",
    values.options: "names and values",
    values.delays: "a column and a time",
    values.mapping: "names, with a mapping each",
    values.anything: "a list of [rules](#quality-rules)",
}

WATERMARK = (
    "How late rows may come, by the column that has their time: `{at: 10 minutes}`; see "
    "[windows](pipelines.md#windows-and-watermarks)"
)
FROM = "The source or step whose rows it takes"
SINK_FROM = "The source or step whose rows are written; need not be given where there is only one"
TIMESTAMP = "The column with the time of a row; the record's own time, where it is not given"
RECORD_FORMAT = "What values are written as; `json` if it is not given"
RECORD_SCHEMA = (
    "For `avro`: the record that is written, as JSON text; with a `registry` a JSON Schema for `json`, the text of a "
    ".proto file for `protobuf`, or nothing for the subject's latest"
)
REGISTRY = (
    "`true`: values are framed with the ids of schemas of the file's registry, an address: of that one; see "
    "[schemas](pipelines.md#schemas-from-a-registry)"
)
MESSAGE = "For `protobuf`: a message of the schema; its first, if it is not given"
KEY = "The column that becomes the record's key"
DELIVERY = "See [writes](pipelines.md#options-of-writes); `exactly-once` if it is not given, and the brokers can"
SINK_OPTIONS = "More [options of writes](pipelines.md#options-of-writes)"
MODE = "Spark's output mode; the first of `append` and `update` that the rows allow, if it is not given"
PARTITION_BY = "Columns whose values become directories"

MEANINGS: Mapping[str, str] = {
    "name": "What the pipeline is called, and its groups begin with; the file's name if it is not given",
    "sources": "Where rows come from",
    "steps": "What is made of them, each from sources and the steps above it",
    "sinks": "Where they go: a query each, whose checkpoint has the sink's name",
    "bootstrap": "Brokers; `--bootstrap-server` wins, `localhost:9092` if neither is given",
    "registry": "The address of a [schema registry](pipelines.md#schemas-from-a-registry), whose login may be in it",
    "registry_user": "Who logs in there, if the address does not say so",
    "registry_password": "The password of that user",
    "registry_ca": "For https: a file, seen from this one, with the CA's certificates; the machine's if not given",
    "registry_wait": f"How long a running query waits for a registry that is away; {DEFAULT_WAIT} if it is not given",
    "settings": "Settings of Spark",
    "checkpoint": "Where the progress is kept; `--checkpoint` wins",
    "trigger": "How often a batch begins; one after the other, if it is not given",
    "sources.topic": "The topic to read, from its beginning unless `options` say otherwise",
    "sources.topic.format": "What values are; `json` if it is not given",
    "sources.topic.schema": (
        "The fields of values, `id string not null, amount double`; for `avro` the record, as JSON text; with a "
        "`registry` the subject's latest, if it is not given"
    ),
    "sources.topic.registry": REGISTRY,
    "sources.topic.subject": "The registry's subject; `TOPIC-value` if it is not given",
    "sources.topic.message": MESSAGE,
    "sources.topic.dead_letters": "Where records go that cannot be used; `TOPIC.dead-letters` if it is not given",
    "sources.topic.tombstones": "Records without a value: `reject` (dead letters) if it is not given",
    "sources.topic.options": "More [options of reads](pipelines.md#options-of-reads)",
    "sources.topic.watermark": WATERMARK,
    "sources.files": "A directory in which files appear, each as a whole. Rows have `_file` and `_modified` besides",
    "sources.files.format": "`text` if it is not given: a column `value` for each line",
    "sources.files.schema": "The fields of JSON (an object on each line) or CSV",
    "sources.files.dead_letters": (
        "Where lines go that do not fit the schema; `DIRECTORY.dead-letters`, by its last name, if it is not given"
    ),
    "sources.files.options": "More options of Spark's reader",
    "sources.files.max_files": f"At most so many files in a batch; {DEFAULT_MAX_FILES} if it is not given",
    "sources.files.watermark": WATERMARK,
    "sources.table": "A database's table: all its rows, then each again whenever its cursor has grown",
    "sources.table.database": "`postgresql://...` or `sqlite:///FILE`",
    "sources.table.cursor": (
        "The column that grows with every change: a number, or a time; rows without one, or with an infinite one, are "
        "not seen"
    ),
    "sources.table.schema": "Columns and their types; the table's own, if it is not given",
    "sources.table.max_rows": f"At most so many rows in a batch; {DEFAULT_MAX_ROWS:,} if it is not given",
    "sources.table.poll": f"How often to look for changes; {DEFAULT_POLL_S:g} second if it is not given",
    "sources.table.settle": (
        "How long a transaction may take to commit behind a younger one; `--available-now` waits so long for it, too; "
        "0 if it is not given"
    ),
    "sources.table.watermark": WATERMARK,
    "steps.sql": "A query of Spark's SQL over sources and steps, by their names",
    "steps.sql.watermark": WATERMARK,
    "steps.python": "`module:function`, or `file.py:function` beside this file: called with the context and the inputs",
    "steps.python.inputs": "The sources or steps that it is given",
    "steps.python.watermark": WATERMARK,
    "steps.quality": "Rows that break a rule become dead letters",
    "steps.quality.from": FROM,
    "steps.expire_after": "Rows older than this become dead letters; those of SQL and text files go, as they have none",
    "steps.expire_after.from": FROM,
    "steps.expire_after.timestamp": TIMESTAMP,
    "steps.deduplicate": "The columns by which a row is another one once more: it is left out",
    "steps.deduplicate.from": FROM,
    "steps.deduplicate.within": "How long keys are remembered, by the time of the rows",
    "steps.deduplicate.timestamp": TIMESTAMP,
    "steps.route": "The column whose value chooses a topic, for a `routed` sink",
    "steps.route.from": FROM,
    "steps.route.topics": "Topics by that value",
    "steps.route.default": (
        "The topic of all other values; without it they become dead letters, or end the query where there are none"
    ),
    "sinks.topic": "The topic to write",
    "sinks.topic.from": SINK_FROM,
    "sinks.topic.key": KEY,
    "sinks.topic.format": RECORD_FORMAT,
    "sinks.topic.schema": RECORD_SCHEMA,
    "sinks.topic.registry": REGISTRY,
    "sinks.topic.subject": "The registry's subject; `TOPIC-value` if it is not given",
    "sinks.topic.message": MESSAGE,
    "sinks.topic.delivery": DELIVERY,
    "sinks.topic.mode": MODE,
    "sinks.topic.options": SINK_OPTIONS,
    "sinks.routed": "`true`: to the topics that a step `route` chose",
    "sinks.routed.from": SINK_FROM,
    "sinks.routed.key": KEY,
    "sinks.routed.format": RECORD_FORMAT,
    "sinks.routed.schema": RECORD_SCHEMA,
    "sinks.routed.registry": REGISTRY,
    "sinks.routed.subject": "The registry's subject, needed with a `registry`: all topics have the one",
    "sinks.routed.message": MESSAGE,
    "sinks.routed.delivery": DELIVERY,
    "sinks.routed.options": SINK_OPTIONS,
    "sinks.parquet": (
        "A directory, or any address that Spark can write to; empty, or this sink's from an earlier run. Readers see a "
        "column `batch`, so that rows cannot have one"
    ),
    "sinks.parquet.from": SINK_FROM,
    "sinks.parquet.partition_by": PARTITION_BY,
    "sinks.delta": "A Delta table (extra `delta`); made if it is not there",
    "sinks.delta.from": SINK_FROM,
    "sinks.delta.partition_by": PARTITION_BY,
    "sinks.delta.mode": "`complete` replaces the table by each batch; `append` if it is not given",
    "sinks.database": "`postgresql://...` (extra `postgresql`) or `sqlite:///FILE`",
    "sinks.database.from": SINK_FROM,
    "sinks.database.table": "The table",
    "sinks.database.key": "The columns that tell rows apart: a row replaces the one with the same",
    "sinks.database.order": (
        "The column that says which of several changes of a key is the last: numbers by their value, text by its bytes"
    ),
    "sinks.database.delete_when": "A condition in SQL: rows for which it is true delete",
    "sinks.database.create": (
        "Whether the table is made if it is not there, with all columns but those whose names begin with `_`; `false` "
        "if it is not given"
    ),
    "sinks.database.retry_for": (
        f"How long to wait for a database that is away; {DEFAULT_RETRY_S / 60:g} minutes if it is not given"
    ),
    "sinks.database.mode": f"{MODE}; `complete` replaces all rows of the table by each batch",
    "sinks.console": "`true`: rows are printed, each batch as a table",
    "sinks.console.from": SINK_FROM,
    "sinks.console.rows": f"At most so many of a batch; {DEFAULT_ROWS} if it is not given",
    "sinks.console.mode": MODE,
}

RULES_HEAD = """
## Quality rules

A list of mappings, each with one rule: `[{not_null: id}, {in_range: {column: amount, low: 0}}]`. A rule that is given
no mapping takes the first of its keys.

| rule | keys | a row keeps it if |
| --- | --- | --- |
"""

RULE_MEANINGS: Mapping[str, str] = {
    "not_null": "the column has a value",
    "in_range": "the value is not below `low` and not above `high`; one of them may be left out",
    "matches": "a part of the text matches the regular expression",
    "fresh": "the time in the column is at most so long before the batch began",
    "unique": "no row with the same keys came within that time before it",
    "check": "the SQL `condition` is true or null; `name` is what the rule is called in dead letters and counts",
}


def page() -> str:
    groups = [("sources", SOURCES, {}), ("steps", STEPS, STEP_VALUES), ("sinks", SINKS, SINK_VALUES)]
    parts = [HEAD, TABLE, *(_row(name, f"`{name}`", kind) for name, kind in TOP.items())]
    for group, kinds, kind_values in groups:
        parts.append(f"\n## {group.capitalize()}\n")
        for kind, keys in kinds.items():
            parts += [TABLE, *_kind(group, kind, kind_values.get(kind, values.text), keys)]
    return "".join((*parts, RULES_HEAD, *_rules()))


def known() -> set[str]:
    """Every key by its path, as MEANINGS has them."""
    groups = {"sources": SOURCES, "steps": STEPS, "sinks": SINKS}
    found = {f"{group}.{kind}" for group, kinds in groups.items() for kind in kinds}
    found |= {
        f"{group}.{kind}.{key}" for group, kinds in groups.items() for kind, keys in kinds.items() for key in keys
    }
    return found | set(TOP)


def _kind(group: str, kind: str, value: Kind, keys: Mapping[str, Kind]) -> Iterator[str]:
    path = f"{group}.{kind}"
    yield _row(path, f"**`{kind}`**", value)
    for key, accepted in keys.items():
        needed = ", needed" if key in REQUIRED.get(path, ()) else ""
        yield _row(f"{path}.{key}", f"`{key}`{needed}", accepted)


def _row(path: str, shown: str, kind: Kind) -> str:
    value = ", ".join(f"`{choice}`" for choice in kind.choices) if isinstance(kind, Choice) else KINDS[kind]
    return f"| {shown} | {value} | {MEANINGS[path]} |\n"


def _rules() -> Iterator[str]:
    for name, (_, required, optional) in RULES.items():
        keys = [*(f"`{key}`" for key in required), *(f"`{key}` (optional)" for key in optional)]
        yield f"| `{name}` | {', '.join(keys)} | {RULE_MEANINGS[name]} |\n"


def main() -> int:
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.read_text() == page() else 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
