"""Where a ZooKeeper ensemble is, as settings name it: `zookeeper://h1:2181,h2:2181/chroot`."""

from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address
from typing import Final

from levada.model.config import ConfigError

SCHEME: Final = "zookeeper://"
DEFAULT_PORT: Final = 2181


@dataclass(frozen=True, slots=True)
class ZooKeeperAddress:
    hosts: str
    """`host:port` of each server, with commas between."""
    chroot: str = ""
    """The path below which everything of this cluster lies; empty for the root."""

    def __str__(self) -> str:
        return f"{SCHEME}{self.hosts}{self.chroot}"


def parse_address(text: str) -> ZooKeeperAddress:
    """The address in the form of `--coordinator`, or without its scheme, as `zookeeper.connect` has it.

    >>> parse_address("zookeeper://h1,[::1]:2182/kafka/a/")
    ZooKeeperAddress(hosts='h1:2181,[::1]:2182', chroot='/kafka/a')
    """
    servers, slash, path = text.strip().removeprefix(SCHEME).partition("/")
    hosts = ",".join(_server(one.strip(), text) for one in servers.split(","))
    return ZooKeeperAddress(hosts, _chroot(slash + path, text))


def _server(server: str, text: str) -> str:
    host, bracket, rest = server.partition("]")
    if bracket:
        port = rest.removeprefix(":")
        if not host.startswith("[") or (rest and rest == port) or not _is_ipv6(host[1:]):
            raise _refusal(text, f"{server!r} is no [IPv6]:PORT")
        host += bracket
        is_named = bool(rest)
    else:
        host, colon, port = server.partition(":")
        is_named = bool(colon)
    if not host:
        raise _refusal(text, "a host is missing")
    if not bracket and any(letter.isspace() or letter in "@?#[" for letter in host):
        raise _refusal(text, f"{host!r} is no host")
    if ":" in port and not bracket:
        raise _refusal(text, f"{server!r}: an IPv6 address stands in brackets")
    if not is_named:
        return f"{host}:{DEFAULT_PORT}"
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise _refusal(text, f"{port!r} is no port")
    return f"{host}:{int(port)}"


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True


def _chroot(path: str, text: str) -> str:
    names = path.rstrip("/").split("/")[1:]
    if "," in path or ":" in path:
        raise _refusal(text, "the path comes once, behind the last server")
    if any(name in ("", ".", "..") or not name.isprintable() for name in names):
        raise _refusal(text, f"{path!r} is no path of ZooKeeper")
    if names[:1] == ["zookeeper"]:
        raise _refusal(text, "/zookeeper is ZooKeeper's own")
    return "".join(f"/{name}" for name in names)


def _refusal(text: str, why: str) -> ConfigError:
    return ConfigError(f"{text!r} is no address of ZooKeeper: {why}; write {SCHEME}host1:2181,host2:2181/chroot")
