"""Real databases for tests, which can be taken away and brought back."""

import os
import pwd
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

START_SECONDS = 30


def server_programs() -> Path | None:
    """The directory of PostgreSQL's programs, if they are installed."""
    found = shutil.which("postgres")
    if found:
        return Path(found).parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


class PostgresServer:
    """A PostgreSQL server of its own, as a user that is not root: it refuses to run as root."""

    def __init__(self) -> None:
        programs = server_programs()
        assert programs is not None
        self._programs = programs
        self._user = "postgres" if os.geteuid() == 0 else None
        self.directory = Path(tempfile.mkdtemp(prefix="levada-pg-"))
        if self._user:
            owner = pwd.getpwnam(self._user)
            os.chown(self.directory, owner.pw_uid, owner.pw_gid)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        initdb = [str(self._programs / "initdb"), "-D", str(self.directory / "data"), "-U", "tester"]
        self._run([*initdb, "--auth=trust", "--no-sync", "--encoding=UTF8"])
        self.start()

    @property
    def address(self) -> str:
        return f"postgresql://tester@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        settings = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.directory} -c fsync=off"
        )
        log = str(self.directory / "log")
        self._control("start", "-w", "-t", str(START_SECONDS), "-l", log, "-o", settings)

    def stop(self) -> None:
        """As an operator would who does not wait for clients."""
        self._control("stop", "-m", "immediate")

    def remove(self) -> None:
        if (self.directory / "data" / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.directory)

    def empty(self) -> None:
        """Drop all that tests have made."""
        self.execute("DROP SCHEMA public CASCADE")
        self.execute("CREATE SCHEMA public")

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(self.address, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def allow(self, rules: str) -> None:
        """Lines of pg_hba.conf, ahead of the one that trusts everyone."""
        file = self.directory / "data" / "pg_hba.conf"
        rest = [line for line in file.read_text().splitlines() if line.endswith("trust")]
        file.write_text("\n".join([rules, *rest, ""]))
        self._control("reload")

    def _control(self, *arguments: str) -> None:
        self._run([str(self._programs / "pg_ctl"), "-D", str(self.directory / "data"), *arguments])

    def _run(self, command: list[str]) -> None:
        with (self.directory / "output").open("a") as output:
            subprocess.run(command, user=self._user, stdout=output, stderr=output, check=True, cwd=self.directory)


class SqliteFile:
    """A SQLite file; it is away while another process holds its lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._holder: sqlite3.Connection | None = None

    @property
    def address(self) -> str:
        return f"sqlite:///{self.path}"

    def start(self) -> None:
        assert self._holder is not None
        self._holder.close()
        self._holder = None

    def stop(self) -> None:
        self._holder = sqlite3.connect(self.path, isolation_level=None)
        self._holder.execute("BEGIN EXCLUSIVE")

    def remove(self) -> None:
        if self._holder is not None:
            self.start()

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.path, isolation_level=None)
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()


TestDatabase = PostgresServer | SqliteFile


def wait_until(condition: Any, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
