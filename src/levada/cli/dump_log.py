"""`levada dump-log`: prints the files of a log directory, as Apache Kafka's kafka-dump-log.sh does."""

import argparse
import os
import sys
from typing import Final

from levada.cli.kit.refusals import Refused
from levada.storage.dump import DEFAULT_MAX_MESSAGE_SIZE, CannotDump, Dump, DumpOptions
from levada.storage.dump_log import NO_LIMIT, LogOptions, Speller
from levada.world.real_disk import RealDisk, RealFile

STRING_DECODER: Final = "org.apache.kafka.tools.api.StringDecoder"

MISSING_DECODERS: Final = (
    "cluster-metadata-decoder",
    "remote-log-metadata-decoder",
    "share-group-state-decoder",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Dumped as Apache Kafka does: .log, .index and .timeindex (which need the .log beside them), .txnindex,"
        " .snapshot. And only here: leader-epoch-checkpoint, the *-offset-checkpoint files, partition.metadata,"
        " meta.properties. A file that cannot be read to its end is a line on stderr and exit code 1."
    )
    parser.add_argument("--files", metavar="FILE,...", required=True, type=_files, help="the files to dump")
    parser.add_argument("--print-data-log", action="store_true", help="also print keys and values of records")
    parser.add_argument("--deep-iteration", action="store_true", help="also a line for each record")
    parser.add_argument("--skip-record-metadata", action="store_true", help="only keys and values of records")
    parser.add_argument("--max-bytes", metavar="N", type=_size, default=NO_LIMIT, help="read so much of each .log")
    parser.add_argument("--index-sanity-check", action="store_true", help="only say whether a broker accepts an index")
    parser.add_argument("--verify-index-only", action="store_true", help="only print what is wrong with an index")
    parser.add_argument(
        "--max-message-size", metavar="N", type=_size, default=DEFAULT_MAX_MESSAGE_SIZE,
        help="of the batches that an index points at (default 5 MiB)",
    )  # fmt: skip
    for field in ("key", "value"):
        parser.add_argument(
            f"--{field}-decoder-class", metavar="CLASS", nargs="?", const=STRING_DECODER,
            help=f"how a {field} is printed: {STRING_DECODER}",
        )  # fmt: skip
    parser.add_argument("--offsets-decoder", action="store_true", help="spell out the records of __consumer_offsets")
    parser.add_argument(
        "--transaction-log-decoder", action="store_true", help="spell out the records of __transaction_state"
    )
    for decoder in MISSING_DECODERS:
        parser.add_argument(f"--{decoder}", action="store_true", help="not there yet")


def run(arguments: argparse.Namespace) -> int:
    _check(arguments)
    for stream in (sys.stdout, sys.stderr):
        # What the terminal cannot show becomes a question mark, as it does in Java.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    return _dump(arguments.files, _options(arguments))


class ReadOnlyDisk(RealDisk):
    """Opens files that the user may read but not write, as another user's log directory is."""

    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> RealFile:
        assert not create
        return RealFile(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))


def _dump(paths: list[str], options: DumpOptions) -> int:
    """A file that cannot be read does not keep the others from being dumped."""
    dump = Dump(ReadOnlyDisk(), options, lambda path: os.path.join(os.getcwd(), path))
    code = 0
    for path in paths:
        try:
            for line in dump.lines(path):
                print(line)
        except CannotDump as error:
            _print_error(str(error))
            code = 1
    for line in dump.faults():
        _print_error(line)
    sys.stdout.flush()
    return code


def _print_error(line: str) -> None:
    sys.stdout.flush()
    print(line, file=sys.stderr)


def _options(arguments: argparse.Namespace) -> DumpOptions:
    decodes = arguments.key_decoder_class is not None or arguments.value_decoder_class is not None
    spell = _speller(arguments)
    contents = arguments.print_data_log or spell is not None or decodes
    log = LogOptions(
        deep=arguments.deep_iteration or contents,
        contents=contents,
        spell=spell,
        skip_record_metadata=arguments.skip_record_metadata,
        max_bytes=arguments.max_bytes,
    )
    return DumpOptions(
        log=log,
        sanity_check_only=arguments.index_sanity_check,
        verify_only=arguments.verify_index_only,
        max_message_size=arguments.max_message_size,
    )


def _speller(arguments: argparse.Namespace) -> Speller | None:
    # Imported only here: they double the time that the command takes to start.
    if arguments.offsets_decoder:
        from levada.groups import record_text as of_groups

        return of_groups.text_of
    if arguments.transaction_log_decoder:
        from levada.transactions import record_text as of_transactions

        return of_transactions.text_of
    return None


def _check(arguments: argparse.Namespace) -> None:
    for decoder in MISSING_DECODERS:
        if getattr(arguments, decoder.replace("-", "_")):
            raise Refused(f"--{decoder} is not there yet")
    for decoder_class in (arguments.key_decoder_class, arguments.value_decoder_class):
        if decoder_class not in (None, STRING_DECODER):
            raise Refused(f"no decoder {decoder_class} here, only {STRING_DECODER}")


def _files(text: str) -> list[str]:
    paths = [path for path in text.split(",") if path]
    if not paths:
        raise argparse.ArgumentTypeError("no file is named")
    return paths


def _size(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= NO_LIMIT):
        raise argparse.ArgumentTypeError(f"{text!r} is no size from 0 to {NO_LIMIT}")
    return int(text)
