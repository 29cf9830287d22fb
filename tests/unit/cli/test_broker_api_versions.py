"""What `levada broker-api-versions` says of requests that are known, unknown, too old and too new."""

from levada.cli.broker_api_versions import text
from levada.client.admin import VersionRange
from levada.protocol.api import ApiKey, request_class


def line(key: int, served: VersionRange) -> str:
    (found,) = (one for one in text({key: served}).split("\n\t") if f"({key}):" in one)
    return found.rstrip(",\n)")


def test_the_newest_version_that_both_know_is_usable() -> None:
    newest = request_class(ApiKey.FETCH).versions[-1]
    assert line(1, VersionRange(4, 11)) == "Fetch(1): 4 to 11 [usable: 11]"
    assert line(1, VersionRange(4, 99)) == f"Fetch(1): 4 to 99 [usable: {newest}]"
    assert line(47, VersionRange(0, 0)) == "OffsetDelete(47): 0 [usable: 0]"


def test_versions_that_do_not_meet_are_unusable() -> None:
    assert line(1, VersionRange(98, 99)) == "Fetch(1): 98 to 99 [unusable: node too new]"
    assert line(1, VersionRange(0, 3)) == "Fetch(1): 0 to 3 [unusable: node too old]"


def test_what_is_not_served_is_named_if_a_client_may_ask_for_it() -> None:
    lines = text({}).split("\n\t")
    assert "Produce(0): UNSUPPORTED," in lines
    assert "AddRaftVoter(80): UNSUPPORTED," in lines
    assert not [one for one in lines if "AlterPartition(" in one or "Envelope" in one]


def test_unknown_requests_have_numbers_only() -> None:
    assert line(500, VersionRange(0, 3)) == "UNKNOWN(500): 0 to 3"


def test_our_own_requests_are_left_out_as_in_apaches_output() -> None:
    assert "32000" not in text({32_000: VersionRange(0, 0)})
