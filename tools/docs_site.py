"""Builds the pages of the documentation with a search, for reading without a network: `python -m tools.docs_site`.

The pages are the Markdown files as they are; only their links change, since a source file is no page. What Sphinx warns
of is an error: a link to a heading that is not there, a page that no list names.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

ROOT = Path(__file__).parents[1]
SITE = ROOT / "site"
STYLE = Path(__file__).with_suffix(".css")
FIRST = "README.md"
DECISIONS = "docs/decisions/README.md"

NAVIGATION = {
    "Using it": ("clients", "clients-configuration", "testing", "pipelines", "pipelines-keys", "scenarios"),
    "Running it": ("tools", "tools-flags", "configuration", "operations", "metrics", "durability"),
    "Knowing it": ("compatibility", "architecture", "decisions/index"),
    "The project": ("../CHANGELOG", "../CONTRIBUTING", "releasing", "../SECURITY"),
}
"""Every page of docs/ and beside it, from docs/. Decisions are listed by their own page."""

SETTINGS = {
    "project": "Levada",
    "extensions": "myst_parser",
    "html_theme": "furo",
    "html_static_path": "_static",
    "html_css_files": STYLE.name,
    "html_show_sourcelink": "0",
    "html_copy_source": "0",
    "html_show_copyright": "0",
    # As on GitHub: every heading can be linked to, and what only MyST takes for syntax is text.
    "myst_heading_anchors": "6",
    "myst_disable_syntax": "myst_role,myst_line_comment,myst_block_break,myst_target,colon_fence",
}

CODE_OR_LINK = re.compile(
    r"^```.*?^```$"  # a block of code
    r"|`[^`\n]*`"
    r"|(?<!!)\[(?P<label>[^\[\]]*)\]\((?P<target>[^()\s]+)\)",
    re.MULTILINE | re.DOTALL,
)
LOADED = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*(?:src|href)=["']((?:https?:)?//[^"']*)""")
LOADED_BY_STYLE = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')]*)""")


class SiteError(Exception):
    """The pages are not as they should be; says what is wrong with them."""


def main() -> int:
    start = time.monotonic()
    try:
        pages = pages_of(ROOT)
        with tempfile.TemporaryDirectory(prefix="levada-site-") as directory:
            source = Path(directory) / "source"
            write_source(pages, source)
            build(source, Path(directory) / "doctrees")
        check_offline(SITE)
    except SiteError as error:
        print(f"site: {error}", file=sys.stderr)
        return 1
    print(f"{len(pages)} pages, all links followed ({time.monotonic() - start:.0f} s): open site/index.html.")
    return 0


def pages_of(root: Path) -> list[str]:
    """All that are read on their own, by their path in the repository."""
    return sorted(str(path.relative_to(root)) for path in (*root.glob("*.md"), *(root / "docs").rglob("*.md")))


def write_source(pages: Collection[str], source: Path) -> None:
    """What Sphinx reads: the pages in the same folders, those of a whole folder as its index."""
    for page in pages:
        text = mapped((ROOT / page).read_text(), page, pages, ROOT)
        if page == FIRST:
            text += "".join(contents(caption, names, "docs") for caption, names in NAVIGATION.items())
        elif page == DECISIONS:
            decisions = sorted({PurePosixPath(other).stem for other in pages if is_decision(other)})
            text += contents("Decisions", decisions, "", is_hidden=False)
        place = source / place_of(page)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    (source / "_static").mkdir()
    shutil.copy(STYLE, source / "_static")


def is_decision(page: str) -> bool:
    return page != DECISIONS and PurePosixPath(page).parent == PurePosixPath(DECISIONS).parent


def contents(caption: str, names: Collection[str], folder: str, *, is_hidden: bool = True) -> str:
    """A list of pages, which the side bar has as well."""
    options = (":hidden:", f":caption: {caption}") if is_hidden else (":maxdepth: 1",)
    lines = ["```{toctree}", *options, "", *(normpath(f"{folder}/{name}" if folder else name) for name in names), "```"]
    return "\n" + "\n".join(lines) + "\n"


def place_of(page: str) -> str:
    """A folder's README is what a browser shows of the folder.

    >>> place_of("docs/decisions/README.md"), place_of("docs/tools.md")
    ('docs/decisions/index.md', 'docs/tools.md')
    """
    path = PurePosixPath(page)
    return str(path.with_name("index.md") if path.name == "README.md" else path)


def mapped(text: str, page: str, pages: Collection[str], root: Path) -> str:
    """The page's text with links that hold in the built pages; SiteError if there is nothing where one leads."""

    def replaced(found: re.Match[str]) -> str:
        if found["target"] is None:
            return found[0]
        try:
            return _link(found["label"], found["target"], page, pages, root)
        except FileNotFoundError as error:
            line = text.count("\n", 0, found.start()) + 1
            raise SiteError(f"{page}:{line} leads to {error}, which is not there") from None

    return CODE_OR_LINK.sub(replaced, text)


def _link(label: str, target: str, page: str, pages: Collection[str], root: Path) -> str:
    path_part, mark, anchor = target.partition("#")
    if not path_part or "://" in target or target.startswith("mailto:"):
        return f"[{label}]({target})"
    path = normpath(PurePosixPath(page).parent / path_part)
    if f"{path}/README.md" in pages:
        path = f"{path}/README.md"
    if path in pages:
        return f"[{label}]({relpath(place_of(path), str(PurePosixPath(place_of(page)).parent))}{mark}{anchor})"
    if path.startswith("..") or not (root / path).exists():
        raise FileNotFoundError(path)
    # A source file: the pages are read without the repository, so its path is all that they can say.
    is_path = path.endswith(label.replace("\\", "").strip("`"))
    return f"`{path}`" if is_path else f"{label} (`{path}`)"


def build(source: Path, doctrees: Path) -> None:
    shutil.rmtree(SITE, ignore_errors=True)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    settings = {**SETTINGS, "release": version, "html_title": f"Levada {version}"}
    options = [option for name, value in settings.items() for option in ("-D", f"{name}={value}")]
    strict = ["-W", "--keep-going", "-q"]
    command = [sys.executable, "-m", "sphinx", *strict, "-C", *options, "-d", str(doctrees), str(source), str(SITE)]
    if subprocess.run(command, check=False).returncode != 0:
        raise SiteError("Sphinx has warnings (above)")


def check_offline(site: Path) -> None:
    """SiteError if a page would fetch something from elsewhere."""
    for path in sorted(site.rglob("*")):
        if path.suffix in (".html", ".css"):
            fetched = next(loads_of(path.read_text()), None)
            if fetched is not None:
                raise SiteError(f"{path.relative_to(site)} loads {fetched}")


def loads_of(text: str) -> Iterator[str]:
    """What a page or a style loads from other machines; links that a reader may follow are none of it.

    >>> list(loads_of('<link rel="stylesheet" href="https://fonts.test/a.css"><a href="https://b.test">b</a>'))
    ['https://fonts.test/a.css']
    """
    for pattern in (LOADED, LOADED_BY_STYLE):
        for found in pattern.finditer(text):
            yield found[1]


if __name__ == "__main__":
    sys.exit(main())
