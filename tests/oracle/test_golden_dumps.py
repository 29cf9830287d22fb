"""Dumps the log directories that Apache Kafka 4.3.1 wrote, and compares every line with what its own tool printed."""

import random
from pathlib import Path

import pytest

from levada.cli.main import main

GOLDEN = Path(__file__).parents[1] / "data" / "golden" / "logs"

FLAGS = {
    "plain": [],
    "deep": ["--deep-iteration"],
    "data": ["--print-data-log"],
    "data-skip-metadata": ["--print-data-log", "--skip-record-metadata"],
    "verify": ["--verify-index-only"],
    "sanity": ["--index-sanity-check"],
}

TEXTS = sorted(path for path in GOLDEN.rglob("dump/*.txt") if not path.name.endswith(".stderr.txt"))


def test_all_dumps_are_here() -> None:
    assert len(TEXTS) == 278
    assert len(list(GOLDEN.rglob("dump/*.stderr.txt"))) == 50
    assert {text.name.split(".")[1] for text in TEXTS} == {"log", "index", "timeindex", "txnindex", "snapshot"}
    assert {text.name.split(".")[2] for text in TEXTS} == set(FLAGS)


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: str(text.relative_to(GOLDEN)))
def test_a_dump_is_apaches_to_the_letter(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    offset, suffix, mode, _ = text.name.split(".")
    [directory] = text.parents[1].glob("*-0")
    code = main(["dump-log", "--files", str(directory / f"{offset}.{suffix}"), *FLAGS[mode]])
    printed = capsys.readouterr()
    errors = text.with_name(text.name.replace(".txt", ".stderr.txt"))
    assert printed.out.replace(f"{directory}/", "") == text.read_text()
    assert printed.err.replace(f"{directory}/", "") == (errors.read_text() if errors.exists() else "")
    assert code == 0


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("flags", [["--print-data-log"], ["--index-sanity-check"]], ids=lambda flags: str(flags[0]))
def test_no_damage_leaves_a_traceback(
    seed: int, flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every file with some bytes changed is dumped, or is an error of one line."""
    chance = random.Random(seed)
    paths = []
    for original in sorted((GOLDEN / "d-restart" / "clean" / "restart-0").iterdir()):
        damaged = bytearray(original.read_bytes())
        for _ in range(chance.randrange(1, 5)):
            damaged[chance.randrange(len(damaged))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        path = tmp_path / original.name
        path.write_bytes(damaged)
        paths.append(str(path))
    assert main(["dump-log", "--files", ",".join(paths), *flags]) in (0, 1)
    printed = capsys.readouterr()
    assert [line for line in printed.out.splitlines() if line.startswith("Dumping ")] == [f"Dumping {p}" for p in paths]
    assert sum(line.startswith("levada: ") for line in printed.err.splitlines()) <= len(paths)
