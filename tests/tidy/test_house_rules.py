"""The rules of the house that a machine can check."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from levada.broker.handlers import HANDLERS
from levada.broker.route import routes_of
from levada.cli.tools import TOOLS
from levada.model.broker_keys import NODE_KEYS
from levada.model.group_keys import GROUP_KEYS
from levada.model.key_meanings import BROKER_MEANINGS, GROUP_MEANINGS, NO_EFFECT, NOTES, TOPIC_MEANINGS
from levada.model.topic_keys import TOPIC_KEYS
from levada.node.settings import SERVED_KEYS
from levada.protocol.api import ApiKey, stable_versions
from levada.spark.pipeline.rules import RULES
from tools import client_configuration, compatibility, configuration, flags, pipeline_keys

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "levada"
MODULES = sorted(SOURCE.rglob("*.py"))
CODE = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "tools", "examples")
    for path in (ROOT / folder).rglob("*.p*")
    if path.suffix in (".py", ".pyi", ".pyx", ".pxd", ".pxi")
)
REQUIREMENTS = sorted((ROOT / "requirements").glob("*.in"))
PURE = (
    "model",
    "protocol",
    "records",
    "metadata",
    "coordination",
    "storage",
    "replication",
    "controller",
    "groups",
    "transactions",
)


@pytest.mark.parametrize(
    "page",
    [compatibility, configuration, client_configuration, flags, pipeline_keys],
    ids=lambda module: module.PAGE.stem,
)
def test_a_generated_page_is_current(page: ModuleType) -> None:
    assert page.PAGE.read_text() == page.page(), "run `make docs`"


def test_every_tool_is_on_the_page_of_the_tools() -> None:
    text = (ROOT / "docs" / "tools.md").read_text()
    assert [name for name in TOOLS if f"| `{name}` |" not in text] == []


def test_every_meaning_of_a_key_of_pipelines_is_of_a_known_key() -> None:
    assert set(pipeline_keys.MEANINGS) == pipeline_keys.known()
    assert set(pipeline_keys.RULE_MEANINGS) == set(RULES)


def test_every_note_of_the_compatibility_page_is_about_a_served_api() -> None:
    assert set(compatibility.NOTES) <= set(routes_of(HANDLERS))


@pytest.mark.parametrize("handler", HANDLERS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_a_handler_opens_with_its_api_and_versions(handler: object) -> None:
    api: ApiKey = handler.API  # type: ignore[attr-defined]
    versions: range = handler.VERSIONS  # type: ignore[attr-defined]
    written = f"{api.title} v{versions[0]}" + (f"-{versions[-1]}" if len(versions) > 1 else "")
    assert (handler.__doc__ or "").startswith(f"{written}."), handler.__doc__
    assert set(versions) <= set(stable_versions(api))


def test_every_handler_file_is_registered() -> None:
    files = {path.stem for path in (SOURCE / "broker" / "handlers").glob("*.py")} - {"__init__"}
    assert files == {module.__name__.rpartition(".")[2] for module in HANDLERS}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_says_its_job_and_its_functions_fit_a_screen(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    if text:
        assert ast.get_docstring(tree), "a module opens with one sentence that names its job"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 60, f"{node.name} does not fit a screen"


def test_no_file_of_code_is_long() -> None:
    lengths = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in CODE}
    assert len(lengths) > 1_000
    assert {name: length for name, length in lengths.items() if length > 500} == {}


def test_pure_packages_are_all_under_the_contracts() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    pure = next(contract for contract in contracts if contract["name"] == "Pure packages see no outside")
    existing = {f"levada.{name}" for name in PURE if (SOURCE / name).is_dir()}
    assert set(pure["source_modules"]) == existing


def test_the_contracts_catch_an_import_that_points_up(tmp_path: Path) -> None:
    """The linter is run over a copy with one wrong import, so that we know it looks."""
    copy = tmp_path / "src" / "levada"
    shutil.copytree(SOURCE, copy)
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    for wrong in ("import asyncio\n", "import levada.broker.broker\n"):
        victim = copy / "storage" / "producers.py"
        original = victim.read_text()
        victim.write_text(original + "\n" + wrong)
        command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
        result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        victim.write_text(original)
        assert result.returncode == 1, result.stdout
        assert "BROKEN" in result.stdout


def test_the_old_name_is_in_one_line_of_the_changelog_and_nowhere_else() -> None:
    """On PyPI it is another project's: a reader who installs it by our words gets code that is not ours."""
    old_name = "pen" + "stock"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [name for name in listed.stdout.split("\0") if name]
    assert [name for name in paths if old_name in name.lower()] == []
    found = [
        (name, line)
        for name in paths
        if (ROOT / name).is_file()
        for line in (ROOT / name).read_bytes().lower().splitlines()
        if old_name.encode() in line
    ]
    assert [name for name, _ in found] == ["CHANGELOG.md"]


def test_the_architecture_page_names_every_package() -> None:
    table = (ROOT / "docs" / "architecture.md").read_text()
    for package in sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()):
        assert f"| `{package}/` |" in table, package


def test_every_word_of_ours_is_explained_by_a_file_that_is_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    section = page.partition("## Our words\n")[2].partition("\n## ")[0]
    _titles, _line, *rows = [line for line in section.splitlines() if line.startswith("|")]
    files = [re.fullmatch(r"\| .+ \| .+ \| `(\S+)` \|", row) for row in rows]
    assert [row for row, file in zip(rows, files) if file is None] == []
    assert [file[1] for file in files if file and not (SOURCE / file[1]).is_file()] == []
    assert len(rows) >= 20


def test_the_questions_of_newcomers_are_answered_by_files_and_functions_that_are_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    answers = page.partition("## Where is ...\n")[2].partition("\n## ")[0].split("\n- ")[1:]
    assert len(answers) >= 6
    for answer in answers:
        words = re.findall(r"`([^`]+)`", answer)
        paths = [SOURCE / word for word in words if word.endswith(".py")]
        assert paths
        assert [path for path in paths if not path.is_file()] == []
        code = "\n".join(path.read_text() for path in paths)
        for word in words:
            is_there = word.endswith(".py") or "=" in word or re.search(rf"\bdef {word}\b", code)
            assert is_there or word == "throttle_time_ms", word


def test_what_newcomers_are_sent_to_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    assert len(links) > 20
    assert [link for link in links if not (ROOT / link).exists()] == []
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"make ([a-z][a-z-]*)", text)) <= {*targets}


def test_what_newcomers_are_told_to_look_for_is_in_the_files_named_with_it() -> None:
    """A name in backticks is in one of the Python files that the same paragraph or step links."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    looked_for = 0
    for step in re.split(r"\n\n|\n(?=- |\d+\. )", text):
        linked = [ROOT / link for link in re.findall(r"\]\(([^)#]+\.py)\)", step)]
        code = "\n".join(path.read_text() for path in linked)
        for name in re.findall(r"`([A-Za-z_][\w.]*)(?:\([\w, ]*\))?`", step) if linked else ():
            looked_for += 1
            assert re.search(rf"\b{re.escape(name)}\b", code), f"{name}: not in {[path.name for path in linked]}"
    assert looked_for >= 8


def test_every_dependency_has_a_line_in_the_decisions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [
        *project["dependencies"],
        *(name for extra in project["optional-dependencies"].values() for name in extra),
    ]
    wanted = [*declared, *(line for path in REQUIREMENTS for line in path.read_text().splitlines())]
    page_text = (ROOT / "docs" / "decisions" / "dependencies.md").read_text()
    for requirement in wanted:
        name = re.match(r"[A-Za-z0-9_-]+", requirement)
        if name is not None and not requirement.startswith(("-e", "#")):
            assert f"| {name[0]} |" in page_text, name[0]


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.stem)
def test_what_is_required_is_pinned(path: Path) -> None:
    names = re.findall(r"^(?!-e)[\w.-]+", path.read_text(), re.MULTILINE)
    pinned = re.findall(r"^([\w.-]+)==\S+$", path.with_suffix(".lock").read_text(), re.MULTILINE)
    assert set(map(_normalized, names)) <= set(map(_normalized, pinned))


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_meaning_is_of_a_known_key() -> None:
    known = {key.name for key in NODE_KEYS}
    assert known >= SERVED_KEYS
    assert known >= set(NOTES)
    assert {key.name for key in TOPIC_KEYS} >= set(TOPIC_MEANINGS)
    assert {key.name for key in GROUP_KEYS} >= set(GROUP_MEANINGS)


def test_a_key_has_an_effect_or_a_note_that_it_has_none() -> None:
    assert not SERVED_KEYS & set(NOTES)
    for note in NOTES.values():
        assert note.startswith(NO_EFFECT.removesuffix(".")), note
    for meaning in (*BROKER_MEANINGS.values(), *TOPIC_MEANINGS.values(), *GROUP_MEANINGS.values(), *NOTES.values()):
        assert meaning.endswith("."), meaning


def test_every_key_is_on_the_configuration_page() -> None:
    documented = (ROOT / "docs" / "configuration.md").read_text()
    for key in (*NODE_KEYS, *TOPIC_KEYS, *GROUP_KEYS):
        assert f"`{key.name}`" in documented, key.name


def test_names_and_comments_say_which_role_acts() -> None:
    """A reader learns which one acts: the leader, a follower, the coordinator, a member, the caller, an operator."""
    riddle = re.compile(r"(?<![a-z])(?:(?:some|any|no)[b]ody|(?:some|any)[o]ne|who[e]ver)(?![a-z])", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in CODE
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if riddle.search(line)
    ]
    assert found == []


def test_the_source_waits_with_a_limit_in_the_way_that_can_be_cancelled() -> None:
    """Python 3.11's asyncio.wait_for drops a cancellation that comes with the result; asyncio.timeout does not."""
    found = [path for path in MODULES if "asyncio.wait_for" in path.read_text()]
    assert found == []


def test_no_file_names_a_machine_or_leaves_work_undone() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    undone = re.compile(r"\b(?:T[O]DO|F[I]XME|X[X]X)\b")
    machine = re.compile(r"/r[o]ot/|/w[o]rk/|/h[o]me/")
    for name in tracked:
        path = ROOT / name
        if (
            path.suffix in (".py", ".pyx", ".pxi", ".md", ".toml", ".js", ".json", "")
            and path.is_file()
            and "golden" not in name
        ):
            text = path.read_text(errors="replace")
            assert not undone.search(text), name
            assert not machine.search(text), name
