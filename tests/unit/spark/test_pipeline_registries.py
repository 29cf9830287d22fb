"""The registry of a pipeline's parts, and what its watch says of one that is away."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from levada.spark.pipeline import registries
from levada.spark.pipeline.definition import Definition
from levada.spark.pipeline.problems import PipelineError
from levada.spark.pipeline.registries import RegistryWatch, chosen_registry, registry_of_file
from levada.spark.rows.problems import RowsError
from levada.spark.rows.registry import SchemaSource, registry_of
from tests.registries import registry_server
from tests.spark.databases import wait_until


@dataclass(slots=True)
class SaidNotes:
    notes: dict[str, str] = field(default_factory=dict)

    def note(self, name: str, text: str) -> None:
        self.notes[name] = text


def test_a_part_has_the_files_registry_or_one_of_its_own() -> None:
    of_file = registry_of("http://h:1")
    assert chosen_registry(None, of_file, {}) is None
    assert chosen_registry(True, of_file, {}) is of_file
    options = {"registry_user": "ann", "maxOffsetsPerTrigger": "5"}
    own = chosen_registry("http://other:2", of_file, options)
    assert own is not None
    assert (own.shown, own.user, options) == ("http://other:2", "ann", {"maxOffsetsPerTrigger": "5"})
    with pytest.raises(PipelineError, match="which has none: name it at the top"):
        chosen_registry(True, None, {})


def test_the_file_names_its_registry_with_its_login(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("a certificate")
    given: dict[str, Any] = {
        "registry_user": "ann",
        "registry_password": "hush",
        "registry_ca": "ca.pem",
        "registry_wait": "90s",
    }
    found = registry_of_file(Definition(tmp_path, registry="https://h", **given))
    assert found is not None
    assert (found.user, found.password, found.authorities, found.wait_s) == ("ann", "hush", "a certificate", 90.0)
    assert registry_of_file(Definition(tmp_path)) is None
    with pytest.raises(RowsError, match="registry_user is for a schema registry; name that as well"):
        registry_of_file(Definition(tmp_path, registry_user="ann"))


def test_an_absence_is_said_until_it_is_over_and_a_sinks_own_note_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registries, "LOOK_S", 0.02)
    said = SaidNotes({"sink": "waiting for a database"})
    with registry_server() as server:
        source = SchemaSource(registry_of(server.url), "orders-value")
        with RegistryWatch([source], ["orders", "sink"], said):
            server.status = 503
            wait_until(
                has(said, f"values may wait for the schema registry: {server.url} answers 503: as the test wants it")
            )
            server.status = 401
            wait_until(has(said, ""))
    assert said.notes == {"orders": "", "sink": "waiting for a database"}


def has(said: SaidNotes, text: str) -> Callable[[], Any]:
    return lambda: said.notes.get("orders") == text
