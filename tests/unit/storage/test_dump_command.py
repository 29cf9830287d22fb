"""`dump-log` as a command: which files it takes, how it refuses, and the text files that only ours dumps."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from levada.cli.main import main
from levada.records import build_batch

OFFSET_CHECKPOINT = b"0\n2\nmy-topic 0 1234\nother 11 99\n"


def write(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def log_in(directory: Path) -> str:
    return write(directory / "00000000000000000000.log", build_batch([(1, b"k", b"v", ())]))


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--files"],
        ["--files", ","],
        ["--files", "x.log", "--no-such-flag"],
        ["--files", "x.log", "--max-bytes", "abc"],
        ["--files", "x.log", "--max-bytes", "-1"],
        ["--files", "x.log", "--max-message-size", str(1 << 31)],
    ],
)
def test_wrong_usage_exits_with_2(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["dump-log", *flags])
    assert stopped.value.code == 2
    complaint = capsys.readouterr().err
    assert complaint.endswith("(see levada dump-log --help)\n")
    assert complaint.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "refusal"),
    [
        (["--cluster-metadata-decoder"], "--cluster-metadata-decoder is not there yet"),
        (["--remote-log-metadata-decoder"], "--remote-log-metadata-decoder is not there yet"),
        (["--share-group-state-decoder"], "--share-group-state-decoder is not there yet"),
        (["--key-decoder-class", "a.B"], "no decoder a.B here, only org.apache.kafka.tools.api.StringDecoder"),
        (["--value-decoder-class", "C"], "no decoder C here, only org.apache.kafka.tools.api.StringDecoder"),
    ],
)
def test_other_decoders_are_refused(
    flags: list[str], refusal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dump-log", "--files", log_in(tmp_path), *flags]) == 1
    assert capsys.readouterr() == ("", f"levada: {refusal}\n")


def test_a_file_that_cannot_be_read_does_not_hide_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "1.log").mkdir()
    unknown = [write(tmp_path / name, b"") for name in ("00000000000000000000.log.deleted", "log")]
    bad = [str(tmp_path / "2.log"), str(tmp_path / "1.log"), *unknown, write(tmp_path / "x1.log", b"")]
    good = log_in(tmp_path)
    assert main(["dump-log", "--files", ",".join([*bad, good, ""])]) == 1
    printed = capsys.readouterr()
    assert printed.err.splitlines() == [
        f"levada: cannot read {bad[0]}: No such file or directory",
        f"levada: cannot read {bad[1]}: Is a directory",
        f"Ignoring unknown file {bad[2]}",
        f"Ignoring unknown file {bad[3]}",
        f"levada: {bad[4]}: its name does not begin with an offset",
    ]
    lines = printed.out.splitlines()
    assert [line for line in lines if line.startswith("Dumping ")] == [f"Dumping {path}" for path in (*bad, good)]
    assert lines[-1].endswith("isvalid: true")


def test_paths_are_printed_as_given_and_reported_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "00000000000000000007.log", build_batch([(1, b"k", b"v", ())], base_offset=8))
    write(tmp_path / "00000000000000000007.index", bytes(7) + b"\1")
    assert main(["dump-log", "--files", "00000000000000000007.index", "--verify-index-only"]) == 1
    assert main(["dump-log", "--files", "00000000000000000007.log", "--deep-iteration"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("Dumping 00000000000000000007.index\nDumping 00000000000000000007.log\n")
    assert f"Non-consecutive offsets in {tmp_path}/00000000000000000007.log\n  -1 is followed by 8\n" in printed.err


@pytest.mark.parametrize(
    ("name", "data", "lines"),
    [
        (
            "recovery-point-offset-checkpoint",
            OFFSET_CHECKPOINT,
            [
                "version: 0",
                "entries: 2",
                "topic: my-topic partition: 0 offset: 1234",
                "topic: other partition: 11 offset: 99",
            ],
        ),
        ("cleaner-offset-checkpoint", b"", []),
        ("leader-epoch-checkpoint", b"0\n1\n3 1500\n", ["version: 0", "entries: 1", "epoch: 3 startOffset: 1500"]),
        ("partition.metadata", b"version: 0\ntopic_id: AAAA-w", ["version: 0", "topic_id: AAAA-w"]),
        ("meta.properties", b"#\n#now\nversion=1\ncluster.id=a=b\n", ["version: 1", "cluster.id: a=b"]),
    ],
)
def test_text_files_are_dumped_as_names_and_values(
    name: str, data: bytes, lines: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / name, data)
    assert main(["dump-log", "--files", path]) == 0
    assert capsys.readouterr() == ("\n".join([f"Dumping {path}", *lines, ""]), "")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("recovery-point-offset-checkpoint", b"1\n0\n"),
        ("recovery-point-offset-checkpoint", b"0\n"),
        ("recovery-point-offset-checkpoint", b"0\n2\na 0 1\n"),
        ("recovery-point-offset-checkpoint", b"0\n1\na 0\n"),
        ("recovery-point-offset-checkpoint", b"0\n1\na 0 x\n"),
        ("leader-epoch-checkpoint", OFFSET_CHECKPOINT),
        ("leader-epoch-checkpoint", b"\xff\xfe"),
        ("partition.metadata", b"version 0"),
        ("meta.properties", b""),
    ],
)
def test_a_damaged_text_file_is_one_line(
    name: str, data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / name, data)
    assert main(["dump-log", "--files", path]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 1
    assert errors[0].startswith(f"levada: {path}: ")


def test_a_log_is_dumped_in_any_locale_and_into_a_closed_pipe(tmp_path: Path) -> None:
    path = write(tmp_path / "00000000000000000000.log", build_batch([(1, "größe".encode(), b"v", ())] * 20_000))
    command = [sys.executable, "-m", "levada", "dump-log", "--files", path, "--print-data-log"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    result = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"key: gr??e payload: v\n" in result.stdout
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"Dumping %s\n" % os.fsencode(path)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1
