"""The table of `levada cluster list-endpoints`."""

from levada.cli.cluster.commands import endpoint_lines
from levada.client.admin import BrokerDescription


def test_columns_are_as_wide_as_the_longest_host_and_rack() -> None:
    brokers = [
        BrokerDescription(0, "a.example.org", 9092, "rack-of-the-north"),
        BrokerDescription(10, "b", 9093, None, is_fenced=True),
    ]
    assert [line.rstrip() for line in endpoint_lines(brokers)] == [
        "ID         HOST          PORT       RACK              STATE      ENDPOINT_TYPE",
        "0          a.example.org 9092       rack-of-the-north unfenced   broker",
        "10         b             9093       null              fenced     broker",
    ]


def test_without_brokers_there_is_a_heading() -> None:
    assert [line.split() for line in endpoint_lines([])] == [["ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"]]
