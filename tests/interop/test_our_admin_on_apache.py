"""Our admin client against a real Apache Kafka broker: the cases that it passes against ours."""

import shutil
from collections.abc import Iterator

import pytest

from tests.clients.admin_cases import CASES, Case, Target
from tests.clients.admin_cases.examples import all_examples, run_examples
from tests.interop.apache_broker import JARS, SETTINGS, ApacheBroker

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""So that there can be access rules, which the client itself is above."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    if shutil.which("java") is None:
        pytest.skip("Java is not installed, so Apache's broker was not asked")
    if not JARS.exists():
        pytest.skip("Apache's broker is not here; test_apache_broker.py fetches it with Maven")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in AUTHORIZER.items():
            patch.setitem(SETTINGS, name, value)
        broker = ApacheBroker(tmp_path_factory.mktemp("apache") / "broker")
    try:
        broker.start()
        yield Target(broker.bootstrap)
    finally:
        broker.kill()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_our_admin(case: Case, target: Target) -> None:
    case.run(target)


def test_the_examples_of_the_docstrings_are_true(target: Target) -> None:
    # Some count groups and topics; what the cases left behind would count too.
    tests = [test for test in all_examples() if not test.name.endswith(("list_groups", "list_transactions"))]
    assert run_examples(tests, target) == []
