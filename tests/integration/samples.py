"""The records that every client must get through unchanged."""

import random
from dataclasses import dataclass

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class Sample:
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


def samples() -> list[Sample]:
    """Null and empty keys and values, headers, odd timestamps, 1 byte to 1 MB; compressible and not."""
    chance = random.Random(7)
    values = [
        b"x",
        None,
        b"",
        "käse 中文 😀".encode(),
        chance.randbytes(100),
        b"a" * 10_000,
        chance.randbytes(70_000),
        b"z" * 400_000,
        chance.randbytes(1_000_000),
    ]
    keys = [b"k", b"only a key", b"", None, b"\x00\xff", None, b"key", None, b"large"]
    headers: list[tuple[tuple[str, bytes | None], ...]] = [
        (),
        (("trace", b"1"),),
        (("trace", b"1"), ("trace", b"2")),
        (("null", None),),
        (("empty", b""), ("ünïcode", b"\x00")),
        (),
        tuple((f"h{number}", b"v" * number) for number in range(70)),
        (),
        (),
    ]
    return [
        Sample(key, value, header, 1_700_000_000_000 + number * 1_000)
        for number, (key, value, header) in enumerate(zip(keys, values, headers, strict=True))
    ]
