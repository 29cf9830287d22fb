"""Where a ZooKeeper ensemble is, in the form of `--coordinator` and of `zookeeper.connect`."""

import pytest

from levada.doors.zookeeper_address import ZooKeeperAddress, parse_address
from levada.model.config import ConfigError


@pytest.mark.parametrize(
    ("text", "hosts", "chroot"),
    [
        ("zookeeper://h1:2181,h2:2182/levada", "h1:2181,h2:2182", "/levada"),
        ("h1:2181,h2:2182/levada", "h1:2181,h2:2182", "/levada"),
        ("zookeeper://h1", "h1:2181", ""),
        ("h1, h2 ,h3", "h1:2181,h2:2181,h3:2181", ""),
        (" h1:02181/ ", "h1:2181", ""),
        ("h1/a/b/", "h1:2181", "/a/b"),
        ("127.0.0.1:1", "127.0.0.1:1", ""),
        ("zookeeper://[::1]:2182,[fe80::1]/x", "[::1]:2182,[fe80::1]:2181", "/x"),
    ],
)
def test_an_address_has_hosts_and_a_path(text: str, hosts: str, chroot: str) -> None:
    address = parse_address(text)
    assert address == ZooKeeperAddress(hosts, chroot)
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a host is missing"),
        ("zookeeper://", "a host is missing"),
        ("zookeeper:///levada", "a host is missing"),
        ("h1,,h2", "a host is missing"),
        ("h1:2181,", "a host is missing"),
        (":2181", "a host is missing"),
        ("h1:", "'' is no port"),
        ("h1:0", "'0' is no port"),
        ("h1:65536", "'65536' is no port"),
        ("h1:x", "'x' is no port"),
        ("h1:-1", "'-1' is no port"),
        ("h1:²", "'²' is no port"),
        ("h1 h2:2181", "'h1 h2' is no host"),
        ("user@h1", "'user@h1' is no host"),
        ("::1:2181", "a host is missing"),
        ("fe80::1", "an IPv6 address stands in brackets"),
        ("[::1", "is no host"),
        ("[::1]2181", r"is no \[IPv6\]:PORT"),
        ("[::1]:", "'' is no port"),
        ("[h1]:2181", r"is no \[IPv6\]:PORT"),
        ("x[::1]:2181", r"is no \[IPv6\]:PORT"),
        ("h1/a//b", "is no path of ZooKeeper"),
        ("h1/../a", "is no path of ZooKeeper"),
        ("h1/a,h2/b", "the path comes once, behind the last server"),
        ("h1/a,h2:2181", "the path comes once, behind the last server"),
        ("h1/zookeeper", "/zookeeper is ZooKeeper's own"),
    ],
)
def test_what_is_no_address_is_refused_in_one_line(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        parse_address(text)
    assert "\n" not in str(refused.value)
    assert "write zookeeper://host1:2181,host2:2181/chroot" in str(refused.value)
