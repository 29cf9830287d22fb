"""`--zookeeper HOST:PORT/PATH` of older command lines: the brokers that are registered there."""

from socket import create_connection
from typing import Final

from levada.cli.kit.refusals import Refused
from levada.doors.zookeeper_address import parse_address
from levada.doors.zookeeper_layout import BROKER_IDS, decode_broker

CONNECT_SECONDS: Final = 5.0
TRY_SECONDS: Final = 1.0


def brokers_in(text: str) -> str:
    """Their addresses, as `--bootstrap-server` has them."""
    address = parse_address(text)
    try:
        from kazoo.client import KazooClient
        from kazoo.exceptions import KazooException, NoNodeError
        from kazoo.handlers.threading import KazooTimeoutError
    except ImportError:
        raise Refused(
            "--zookeeper wants pip install 'levada[zookeeper]'; or give a broker's address with --bootstrap-server"
            " HOST:PORT"
        ) from None
    if not any(_answers(server) for server in address.hosts.split(",")):
        raise Refused(f"no server of ZooKeeper answers at {address.hosts}")
    client = KazooClient(hosts=f"{address.hosts}{address.chroot}", timeout=CONNECT_SECONDS)
    try:
        client.start(CONNECT_SECONDS)
        nodes = [(name, client.get(f"{BROKER_IDS}/{name}")[0]) for name in sorted(client.get_children(BROKER_IDS))]
    except KazooTimeoutError:
        raise Refused(f"no server of ZooKeeper answers at {address.hosts}") from None
    except NoNodeError:
        raise Refused(f"no brokers are registered in {address}: is there a path behind the address?") from None
    except KazooException as error:
        raise Refused(f"ZooKeeper at {address.hosts} cannot be read: {error!r}") from error
    finally:
        client.stop()
        client.close()
    members = [decode_broker(int(name), data) for name, data in nodes if name.isdigit()]
    found = [f"{member.host}:{member.port}" for member in members if member.port]
    if not found:
        raise Refused(f"no broker in {address} has an address that can be reached")
    return ",".join(found)


def _answers(server: str) -> bool:
    """A client of ZooKeeper would go on trying where no program listens."""
    host, _, port = server.rpartition(":")
    try:
        create_connection((host.strip("[]"), int(port)), TRY_SECONDS).close()
    except OSError:
        return False
    return True
