"""The pages of docs/ are run as they stand, each from top to bottom in an empty directory."""

import re
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.pages import ROOT, Block, Reader, blocks_of, compare

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

RUN_ELSEWHERE = {
    "README.md": "tests/spark/test_examples.py",
    "clients.md": "tests/integration/test_client_examples.py",
    "pipelines.md": "tests/spark/test_examples.py",
    "testing.md": "tests/testing/test_pages.py",
}
"""Pages whose blocks have a test of their own kind, which sees to it that none is left out."""

WITH_BLOCKS = [page for page in PAGES if page.name not in RUN_ELSEWHERE and blocks_of(page)]


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: page.stem)
def test_a_page_does_what_it_shows(page: Path, tmp_path: Path) -> None:
    with Reader(tmp_path) as reader:
        for block in blocks_of(page):
            if not block.not_run:
                reader.follow(block)


def test_a_page_that_is_run_elsewhere_is_there() -> None:
    assert {page.name for page in PAGES} >= set(RUN_ELSEWHERE)
    assert all((ROOT / test).is_file() for test in RUN_ELSEWHERE.values())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_fences_all_its_blocks(page: Path) -> None:
    """Markdown takes indented lines for a block too, which would go unseen."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert re.findall(r"\n\n {4,}\S.*", text) == []


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ("```\nlevada serve\n```\n", "cannot run no language"),
        ("```yaml\nkey: value\n```\n", "cannot run yaml"),
        ("```text\nOut of place.\n```\n", "cannot run text"),
        ("```console\n$ echo one\ntwo\n```\n", "printed\none\n\ninstead of\ntwo\n"),
        ("```console\n$ (exit 3)\n```\n", "ended with 3"),
        ("```sh\nfalse | cat\ntrue\n```\n", "ended with 1"),
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "printed\n1\n\ninstead of\n2\n"),
        ("```python\nimport no_such_module\n```\n", "No module named 'no_such_module'"),
        ("```python\ndef test_nothing():\n    assert False\n```\n", "1 failed"),
        ("```sh\nmake coffee    # no such target\n```\n", "make coffee"),
        ("```sh\npip install 'levada[coffee]'\n```\n", "levada[coffee]"),
    ],
)
def test_what_is_wrong_on_a_page_is_seen(wrong: str, complaint: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n{wrong}")
    (block,) = blocks_of(page)
    with Reader(tmp_path) as reader, pytest.raises(AssertionError, match=re.escape(complaint)):
        reader.follow(block)


@pytest.mark.parametrize(
    ("shown", "printed", "agrees"),
    [
        ("one\n...\ntwo\n", "one\ntwo\n", True),
        ("one\n...\ntwo\n", "one\n1\n\n2\ntwo\n", True),
        ("...\ntwo\n", "two\n", True),
        ("o...e ...\n", "one 1\n", True),
        ("o...e\n", "o\ne\n", False),
        ("one\n", "one\ntwo\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_dots_stand_for_what_differs_from_run_to_run(shown: str, printed: str, agrees: bool) -> None:
    block = Block(Path("page.md"), 1, "console", "", "")
    with nullcontext() if agrees else pytest.raises(AssertionError):
        compare(block, "command", shown, printed)


def test_a_block_that_is_not_run_says_why(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- not run: takes a year -->\n```sh\nsleep 1y\n```\n\n```sh\ntrue\n```\n")
    assert [block.not_run for block in blocks_of(page)] == ["takes a year", ""]
