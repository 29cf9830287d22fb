"""The pytest plugin as users meet it: pytest in a process of its own, on files of theirs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

STRICT = ("--strict-markers", "-W", "error", "-p", "no:cacheprovider")


def run_pytest(directory: Path, *arguments: str, check: bool = True) -> str:
    """What it prints; on stderr there must be nothing."""
    ran = start_pytest(directory, *arguments)
    output, errors = ran.communicate()
    assert errors == ""
    assert (ran.returncode == 0) == check, output
    return output


def start_pytest(directory: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "pytest", "-q", *STRICT, *arguments]
    return subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def passed(output: str) -> int:
    found = re.search(r"(\d+) passed", output)
    assert found is not None, output
    return int(found[1])


def test_a_broker_is_one_argument_away(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(
        """
def test_an_order_arrives(levada_broker):
    levada_broker.produce("orders", ["first"])
    assert [record.value for record in levada_broker.wait_for_records("orders")] == [b"first"]
"""
    )
    assert passed(run_pytest(tmp_path)) == 1


def test_each_test_has_a_broker_of_its_own_and_a_session_has_one(tmp_path: Path) -> None:
    (tmp_path / "test_scopes.py").write_text(
        """
import pytest

seen, shared = [], []

@pytest.mark.parametrize("number", range(3))
def test_fresh(levada_broker, number):
    assert levada_broker.admin().list_topics() == {}
    levada_broker.create_topic("orders")
    seen.append(levada_broker)
    assert len(set(map(id, seen))) == len(seen)
    assert [broker.is_running for broker in seen] == [False] * number + [True]

@pytest.mark.parametrize("number", range(3))
def test_shared(levada_broker_session, number):
    levada_broker_session.create_topic(f"orders-{number}")
    shared.append(levada_broker_session)
    assert len(levada_broker_session.admin().list_topics()) == number + 1
    assert len(set(map(id, shared))) == 1
"""
    )
    assert passed(run_pytest(tmp_path)) == 6


def test_settings_come_from_a_fixture_and_from_the_nearest_mark(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        """
import pytest

@pytest.fixture(scope="session")
def levada_settings():
    return {"num.partitions": 2, "broker.rack": "left"}
"""
    )
    (tmp_path / "test_settings.py").write_text(
        """
import pytest

pytestmark = pytest.mark.levada({"num.partitions": 3})

def partitions(broker):
    broker.produce("orders", ["first"])
    assert [node.rack for node in broker.admin().describe_cluster().brokers] == ["left"]
    return len(broker.admin().describe_topics(["orders"])["orders"].partitions)

def test_of_the_module(levada_broker):
    assert partitions(levada_broker) == 3

@pytest.mark.levada(num_partitions=4)
def test_of_its_own(levada_broker):
    assert partitions(levada_broker) == 4

def test_of_the_session(levada_broker_session):
    assert partitions(levada_broker_session) == 2

def test_of_each_that_is_made(make_levada_broker):
    one, other = make_levada_broker(), make_levada_broker(num_partitions=5)
    assert (partitions(one), partitions(other)) == (2, 5)
"""
    )
    assert passed(run_pytest(tmp_path)) == 4


def test_a_broker_that_cannot_start_is_an_error_of_the_test_that_wants_it(tmp_path: Path) -> None:
    (tmp_path / "test_wrong.py").write_text(
        """
import pytest

@pytest.mark.levada(num_partitoins=3)
def test_wrong(levada_broker):
    pass
"""
    )
    output = run_pytest(tmp_path, check=False)
    assert "1 error" in output
    assert "num.partitions" in output


def test_a_failing_test_shows_what_the_broker_said(tmp_path: Path) -> None:
    (tmp_path / "test_failing.py").write_text("def test_failing(levada_broker):\n    assert False\n")
    output = run_pytest(tmp_path, "--log-level=INFO", check=False)
    assert "started node_id=1" in output


def test_a_hundred_tests_have_a_hundred_brokers(tmp_path: Path) -> None:
    (tmp_path / "test_hundred.py").write_text(
        """
import threading
import pytest

@pytest.mark.parametrize("number", range(100))
def test_one_of_a_hundred(levada_broker, number):
    levada_broker.create_topic("orders", partitions=3)
    levada_broker.produce("orders", [str(number)])
    assert [record.value for record in levada_broker.wait_for_records("orders")] == [str(number).encode()]

def test_nothing_is_left():
    assert threading.active_count() == 1
"""
    )
    assert passed(run_pytest(tmp_path)) == 101


def test_runs_beside_each_other_do_not_meet(tmp_path: Path) -> None:
    """As the workers of pytest-xdist, which are processes of their own."""
    (tmp_path / "test_beside.py").write_text(
        """
import pytest

@pytest.mark.parametrize("number", range(10))
def test_beside(levada_broker, levada_broker_session, number):
    levada_broker.produce("orders", ["first"])
    assert len(levada_broker.wait_for_records("orders")) == 1
    levada_broker_session.produce("orders", [str(number)])
    assert len(levada_broker_session.wait_for_records("orders", number + 1)) == number + 1
"""
    )
    runs = [start_pytest(tmp_path) for _ in range(3)]
    for run in runs:
        output, errors = run.communicate()
        assert (passed(output), errors) == (10, "")


def test_the_plugin_loads_no_broker_and_no_client_until_a_fixture_is_used(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
    (tmp_path / "conftest.py").write_text(
        """
import json, sys

def pytest_unconfigure(config):
    print(json.dumps(sorted(name for name in sys.modules if name.split(".")[0] == "levada")))
"""
    )
    output = run_pytest(tmp_path)
    loaded = json.loads(output.splitlines()[-1])
    assert loaded == ["levada", "levada.testing", "levada.testing.plugin"]


def test_the_names_of_the_package_are_loaded_one_by_one() -> None:
    code = (
        "import sys, levada.testing as testing\n"
        "assert not [name for name in sys.modules if name.startswith('levada.') and name != 'levada.testing']\n"
        "assert all(getattr(testing, name) for name in testing.__all__)\n"
        "from levada.testing import *\n"
        "simulate, EmbeddedBroker\n"
    )
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_a_name_that_is_not_there_is_not_there() -> None:
    import levada.testing

    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = levada.testing.nothing


def test_a_failure_shows_the_line_of_the_test_and_nothing_of_the_inside(tmp_path: Path) -> None:
    (tmp_path / "test_failing.py").write_text(
        """
from levada.testing import EmbeddedBroker, wait_until

def test_records(levada_broker):
    levada_broker.produce("orders", ["first"])
    levada_broker.wait_for_records("orders", 2, timeout=0.1)

def test_topic(levada_broker):
    levada_broker.create_topic("no/such")

def test_waiting():
    wait_until(lambda: 0, 0.01)

def test_setting():
    EmbeddedBroker(log_retentoin_ms=1).start()
"""
    )
    output = run_pytest(tmp_path, check=False)
    shown = [line for line in output.splitlines() if line.startswith(">")]
    assert [line.removeprefix(">").strip() for line in shown] == [
        'levada_broker.wait_for_records("orders", 2, timeout=0.1)',
        'levada_broker.create_topic("no/such")',
        "wait_until(lambda: 0, 0.01)",
        "EmbeddedBroker(log_retentoin_ms=1).start()",
    ]
    assert "src/levada" not in output
