"""A small schema registry with Confluent's HTTP API, which a test can stop, slow down and make fail."""

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import fastavro


@dataclass(frozen=True, slots=True)
class Refusal(Exception):
    """An answer other than 200, as Confluent's registry gives it."""

    status: int
    code: int
    message: str


@dataclass(slots=True)
class Stored:
    kind: str
    text: str
    references: list[dict[str, Any]]

    def shown(self) -> dict[str, Any]:
        """Registries leave the type out for Avro."""
        kind = {} if self.kind == "AVRO" else {"schemaType": self.kind}
        references = {"references": self.references} if self.references else {}
        return {"schema": self.text, **kind, **references}


@dataclass(slots=True)
class SchemaStore:
    """Ids are those of schemas, whatever subjects have them."""

    schemas: list[Stored] = field(default_factory=list)
    subjects: dict[str, list[int]] = field(default_factory=dict)

    def by_id(self, schema_id: int) -> Stored:
        if not 0 < schema_id <= len(self.schemas):
            raise Refusal(404, 40403, f"Schema {schema_id} not found")
        return self.schemas[schema_id - 1]

    def version(self, subject: str, version: str) -> dict[str, Any]:
        ids = self.ids_of(subject)
        number = len(ids) if version == "latest" else int(version)
        if not 0 < number <= len(ids):
            raise Refusal(404, 40402, f"Version {version} not found.")
        return {"subject": subject, "version": number, "id": ids[number - 1], **self.by_id(ids[number - 1]).shown()}

    def ids_of(self, subject: str) -> list[int]:
        if subject not in self.subjects:
            raise Refusal(404, 40401, f"Subject '{subject}' not found.")
        return self.subjects[subject]

    def look_up(self, subject: str, given: Stored) -> dict[str, Any]:
        for version, schema_id in enumerate(self.ids_of(subject), 1):
            if self.by_id(schema_id) == given:
                return {"subject": subject, "version": version, "id": schema_id, **given.shown()}
        raise Refusal(404, 40403, "Schema not found")

    def register(self, subject: str, given: Stored) -> int:
        self._refuse_invalid(given)
        fault = self.incompatibility(subject, given)
        if fault is not None:
            raise Refusal(409, 409, f"Schema being registered is incompatible: {fault}")
        if given not in self.schemas:
            self.schemas.append(given)
        schema_id = self.schemas.index(given) + 1
        ids = self.subjects.setdefault(subject, [])
        if schema_id not in ids:
            ids.append(schema_id)
        return schema_id

    def incompatibility(self, subject: str, given: Stored) -> str | None:
        """Whether readers with the given schema can read what was written with the last: fields and their types."""
        self._refuse_invalid(given)
        ids = self.subjects.get(subject)
        if not ids or given.kind == "PROTOBUF":
            return None
        before, after = _fields(self.by_id(ids[-1])), _fields(given)
        for name, (kind, has_default) in after.items():
            if name in before and before[name][0] != kind:
                return f"the type of field {name!r} has changed"
            if name not in before and not has_default:
                return f"field {name!r} has no default"
        return None

    def _refuse_invalid(self, given: Stored) -> None:
        try:
            if given.kind == "PROTOBUF":
                base64.b64decode(given.text, validate=True)
            elif given.kind == "AVRO" and not given.references:
                fastavro.parse_schema(json.loads(given.text))
            else:
                json.loads(given.text)
        except Exception as error:
            raise Refusal(422, 42201, f"Invalid schema: {error}") from error


def _fields(schema: Stored) -> dict[str, tuple[Any, bool]]:
    content = json.loads(schema.text)
    if schema.kind == "AVRO":
        return {each["name"]: (each["type"], "default" in each) for each in content["fields"]}
    required = content.get("required", [])
    return {name: (each.get("type"), name not in required) for name, each in content["properties"].items()}


class RegistryServer:
    """`status` answers everything with it, `slow_s` waits before each answer, `login` is the only one that may ask."""

    def __init__(self, path: str = "") -> None:
        self.store = SchemaStore()
        self.path = path
        self.status: int | None = None
        self.slow_s = 0.0
        self.login: tuple[str, str] | None = None
        self.raw: bytes | None = None
        """Instead of any answer's content."""
        self.gives_descriptors = True
        """Else Protobuf schemas are answered as they were registered, and 500 where descriptors are asked for."""
        self.drip_s: float | None = None
        """Between two bytes of an answer."""
        self.tls: ssl.SSLContext | None = None
        self.asked: list[str] = []
        self._port = 0
        self._server: ThreadingHTTPServer | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self._port}{self.path}"

    def url_with(self, login: str) -> str:
        return f"http://{login}@127.0.0.1:{self._port}{self.path}"

    def start(self) -> None:
        """On the port that it had before."""
        handler = type("Handler", (_Handler,), {"registry": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), handler)
        self._server.daemon_threads = True
        self._port = self._server.server_address[1]
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def add(self, subject: str, schema: Any, kind: str = "AVRO", references: list[dict[str, Any]] | None = None) -> int:
        """Register without a request."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return self.store.register(subject, Stored(kind, text, references or []))


@contextmanager
def registry_server(path: str = "") -> Iterator[RegistryServer]:
    server = RegistryServer(path)
    try:
        yield server
    finally:
        server.stop()


class _Handler(BaseHTTPRequestHandler):
    registry: RegistryServer

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def log_message(self, format: str, *arguments: Any) -> None:
        """Tests look at `asked`."""

    def _answer(self, method: str) -> None:
        registry = self.registry
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        registry.asked.append(f"{method} {self.path}")
        time.sleep(registry.slow_s)
        try:
            if registry.status is not None:
                raise Refusal(registry.status, registry.status * 100 + 1, "as the test wants it")
            self._refuse_login()
            answer, status = self._content(method, body), 200
        except Refusal as refusal:
            answer, status = {"error_code": refusal.code, "message": refusal.message}, refusal.status
        data = registry.raw if registry.raw is not None else json.dumps(answer).encode()
        self._send(status, data)

    def _send(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        drip_s = self.registry.drip_s
        try:
            for piece in [data] if drip_s is None else [bytes([byte]) for byte in data]:
                self.wfile.write(piece)
                time.sleep(drip_s or 0)
        except OSError:
            pass  # The client did not wait for all of it.

    def _refuse_login(self) -> None:
        login = self.registry.login
        if login is None:
            return
        wanted = "Basic " + base64.b64encode(":".join(login).encode()).decode()
        if self.headers.get("Authorization") != wanted:
            raise Refusal(401, 40101, "Unauthorized")

    def _content(self, method: str, body: Mapping[str, Any]) -> Any:
        store = self.registry.store
        split = urlsplit(self.path)
        if not split.path.startswith(self.registry.path):
            raise Refusal(404, 404, "HTTP 404 Not Found")
        given = Stored(body.get("schemaType", "AVRO"), body.get("schema", ""), list(body.get("references", [])))
        parts = [unquote(part) for part in split.path.removeprefix(self.registry.path).strip("/").split("/")]
        match (method, *parts):
            case ("GET", "subjects"):
                return sorted(store.subjects)
            case ("GET", "schemas", "ids", number):
                found = store.by_id(int(number))
                is_serialized = parse_qs(split.query).get("format") == ["serialized"]
                # As a registry has it: text, unless descriptors are asked for.
                if found.kind == "PROTOBUF" and is_serialized and not self.registry.gives_descriptors:
                    raise Refusal(500, 50001, "Syntax error")
                if found.kind == "PROTOBUF" and not is_serialized and self.registry.gives_descriptors:
                    return {**found.shown(), "schema": 'syntax = "proto3";'}
                return found.shown()
            case ("GET", "subjects", subject, "versions", version):
                shown = store.version(subject, version)
                if shown.get("schemaType") == "PROTOBUF" and self.registry.gives_descriptors:
                    shown["schema"] = 'syntax = "proto3";'
                return shown
            case ("POST", "subjects", subject):
                return store.look_up(subject, given)
            case ("POST", "subjects", subject, "versions"):
                return {"id": store.register(subject, given)}
            case ("POST", "compatibility", "subjects", subject, "versions", "latest"):
                store.ids_of(subject)
                fault = store.incompatibility(subject, given)
                return {"is_compatible": fault is None, "messages": [fault] if fault else []}
        raise Refusal(404, 404, "HTTP 404 Not Found")
