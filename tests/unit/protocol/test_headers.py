"""Request and response headers."""

import pytest

from levada.protocol.api import ApiKey
from levada.protocol.errors import MalformedMessage
from levada.protocol.headers import (
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
    response_has_tags,
    skip_tags,
)


@pytest.mark.parametrize("client_id", [None, "", "tést"])
@pytest.mark.parametrize(("api_key", "version", "tags"), [(ApiKey.PRODUCE, 8, 0), (ApiKey.PRODUCE, 9, 1)])
def test_a_request_header_reads_back(api_key: ApiKey, version: int, tags: int, client_id: str | None) -> None:
    encoded = encode_request_header(api_key, version, -5, client_id)
    header = decode_request_header(encoded)
    assert (header.api_key, header.api_version, header.correlation_id) == (api_key, version, -5)
    assert header.client_id == client_id
    assert len(encoded) == header.body + tags


def test_the_client_id_keeps_its_two_byte_length_in_header_v2() -> None:
    assert encode_request_header(ApiKey.PRODUCE, 9, 1, "ab") == bytes.fromhex("0000 0009 00000001 0002 6162 00")


@pytest.mark.parametrize("frame", [b"", bytes(9), bytes.fromhex("0000 0009 00000001 0005 6162")])
def test_a_cut_off_header_is_malformed(frame: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_request_header(frame)


def test_a_client_id_that_is_not_text_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        decode_request_header(bytes.fromhex("0000 0009 00000001 0001 ff"))


def test_header_tags_are_skipped_by_their_size() -> None:
    assert skip_tags(bytes.fromhex("02 00 02 aabb 05 00 77"), 0) == 7
    for broken in (b"", b"\x01", b"\x01\x00", b"\x01\x00\x05a"):
        with pytest.raises(MalformedMessage):
            skip_tags(broken, 0)


def test_the_answer_to_api_versions_never_has_header_tags() -> None:
    assert not response_has_tags(ApiKey.API_VERSIONS, 3)
    assert response_has_tags(ApiKey.PRODUCE, 9)
    assert not response_has_tags(ApiKey.PRODUCE, 8)


@pytest.mark.parametrize("has_tags", [False, True])
def test_a_response_header_reads_back(has_tags: bool) -> None:
    encoded = encode_response_header(77, has_tags=has_tags)
    assert decode_response_header(encoded, has_tags=has_tags) == (77, len(encoded))
    with pytest.raises(MalformedMessage):
        decode_response_header(encoded[:3], has_tags=has_tags)
