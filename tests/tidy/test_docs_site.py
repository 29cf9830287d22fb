"""What `make site` makes of links, and what it refuses. Building the pages takes Sphinx, which is not here."""

import re
from pathlib import Path

import pytest

from tools.docs_site import (
    DECISIONS,
    NAVIGATION,
    ROOT,
    SiteError,
    check_offline,
    contents,
    is_decision,
    loads_of,
    mapped,
    pages_of,
    place_of,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with two pages, a folder of pages and a source file."""
    for name in ("README.md", "docs/tools.md", DECISIONS, "docs/decisions/codec.md", "src/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("# A page\n")
    return tmp_path


@pytest.mark.parametrize(
    ("page", "text", "expected"),
    [
        ("README.md", "[tools](docs/tools.md)", "[tools](docs/tools.md)"),
        ("README.md", "[why](docs/decisions/)", "[why](docs/decisions/index.md)"),
        ("docs/tools.md", "[start](../README.md#five-minutes)", "[start](../index.md#five-minutes)"),
        ("docs/decisions/README.md", "[codec](codec.md)", "[codec](codec.md)"),
        ("docs/decisions/codec.md", "[tools\nand flags](../tools.md)", "[tools\nand flags](../tools.md)"),
        ("docs/tools.md", "[time](#time), [Kafka](https://kafka.test/)", "[time](#time), [Kafka](https://kafka.test/)"),
    ],
)
def test_a_link_to_a_page_leads_to_the_built_page(root: Path, page: str, text: str, expected: str) -> None:
    assert mapped(text, page, pages_of(root), root) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"in [\_\_init\_\_.py](../src/__init__.py)", "in `src/__init__.py`"),
        ("[`src/__init__.py`](../src/__init__.py)", "`src/__init__.py`"),
        ("[the package](../src/__init__.py)", "the package (`src/__init__.py`)"),
    ],
)
def test_a_link_to_a_source_file_becomes_its_path(root: Path, text: str, expected: str) -> None:
    assert mapped(text, "docs/tools.md", pages_of(root), root) == expected


@pytest.mark.parametrize("target", ["nowhere.md", "../src/nothing.py", "../../outside.md"])
def test_a_link_to_nothing_is_refused_with_its_line(root: Path, target: str) -> None:
    with pytest.raises(SiteError, match=r"docs/tools\.md:3 leads to .*, which is not there"):
        mapped(f"# Tools\n\n[gone]({target})\n", "docs/tools.md", pages_of(root), root)


@pytest.mark.parametrize("text", ["`[a](b)`", "```python\nrows[key](value)\n```", "![a picture](picture.png)"])
def test_what_is_no_link_stays_as_it_is(root: Path, text: str) -> None:
    assert mapped(text, "README.md", pages_of(root), root) == text


def test_every_page_is_listed_once_and_every_link_of_it_leads_somewhere() -> None:
    pages = pages_of(ROOT)
    places = {place_of(page) for page in pages if not is_decision(page)} - {"index.md"}
    listed = [re.sub(r"^docs/\.\./", "", f"docs/{name}.md") for names in NAVIGATION.values() for name in names]
    assert sorted(listed) == sorted(places)
    assert [page for page in pages if is_decision(page)] != []
    assert DECISIONS in pages
    for page in pages:
        mapped((ROOT / page).read_text(), page, pages, ROOT)


def test_a_list_of_pages_names_them_from_where_it_stands() -> None:
    assert contents("Using it", ["clients", "../CHANGELOG"], "docs") == (
        "\n```{toctree}\n:hidden:\n:caption: Using it\n\ndocs/clients\nCHANGELOG\n```\n"
    )


def test_a_page_that_loads_from_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<script src="_static/a.js"></script><a href="https://b.test">b</a>')
    check_offline(tmp_path)
    (tmp_path / "a.css").write_text("@import 'https://fonts.test/a.css'; a { background: url(//b.test/c.png) }")
    with pytest.raises(SiteError, match=r"a\.css loads https://fonts\.test/a\.css"):
        check_offline(tmp_path)
    assert list(loads_of((tmp_path / "a.css").read_text())) == ["https://fonts.test/a.css", "//b.test/c.png"]
