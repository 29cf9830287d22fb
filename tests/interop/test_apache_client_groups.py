"""Our consumer in groups of a real Apache Kafka broker: every test that it passes with ours."""

import shutil
from collections.abc import Iterator

import pytest

from tests.clients.group_cases import BROKER_SETTINGS
from tests.integration import test_consumer_groups as shared
from tests.interop import apache_broker
from tests.interop.apache_broker import JARS, ApacheBroker

# kafka-python leaves sockets behind.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if shutil.which("java") is None:
        pytest.skip("Java is not installed, so Apache's broker was not tried")
    if not JARS.exists():
        pytest.skip("Apache's broker is not here; test_apache_broker.py fetches it with Maven")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apache_broker, "SETTINGS", apache_broker.SETTINGS | BROKER_SETTINGS)
        broker = ApacheBroker(tmp_path_factory.mktemp("groups") / "apache")
    try:
        broker.start()
        yield broker.bootstrap
    finally:
        broker.kill()


globals().update({name: test for name, test in vars(shared).items() if name.startswith("test_")})
