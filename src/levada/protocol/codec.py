"""Encodes and decodes messages, compiling each (message, version) when it is first met."""

from struct import error as StructError  # noqa: N812 - a class, named as one
from typing import Any, TypeAlias, TypeVar

from levada.model.buffers import Buffer
from levada.protocol.decoding import (
    Decoder,
    SlicedDecoder,
    compile_decoder,
    compile_limited_decoder,
    compile_sliced_decoder,
)
from levada.protocol.encoding import Encoder, SlicedEncoder, compile_encoder, compile_sliced_encoder
from levada.protocol.errors import CannotEncode, CodecError, MalformedMessage, UnsupportedVersion
from levada.world.disk import FileRange

T = TypeVar("T")

Piece: TypeAlias = Buffer | FileRange
"""A part of an encoded message; only records that still lie in a file are a FileRange."""

BAD_BYTES = (CodecError, StructError, IndexError, ValueError, OverflowError)
"""What decoders raise for bytes that are no message."""

_decoders: dict[tuple[type, int], Decoder] = {}
_encoders: dict[tuple[type, int], Encoder] = {}
_sliced_decoders: dict[tuple[type, int], SlicedDecoder] = {}
_sliced_encoders: dict[tuple[type, int], SlicedEncoder] = {}


def decode(cls: type[T], version: int, data: Buffer) -> T:
    """The message that fills `data` exactly; MalformedMessage for anything else."""
    message, position = decode_prefix(cls, version, data)
    if position != len(data):
        raise MalformedMessage(f"{len(data) - position} bytes follow {cls.__name__} v{version}")
    return message


def decode_prefix(cls: type[T], version: int, data: Buffer, position: int = 0) -> tuple[T, int]:
    """The message at `position`, and the position after it."""
    decoder = _decoders.get((cls, version)) or decoder_of(cls, version)
    try:
        return decoder(data, position, len(data))
    except CodecError:
        raise
    except (StructError, IndexError, ValueError, OverflowError) as error:
        raise MalformedMessage(f"{cls.__name__} v{version}: {error}") from error


def reason_of(error: Exception) -> str:
    """For a log; Python's own words about missing bytes would tell an operator nothing."""
    return "the request ends too early" if isinstance(error, (StructError, IndexError)) else str(error)


def encode(message: object, version: int) -> list[Piece]:
    """The pieces of a message in wire order."""
    pieces: list[Piece] = []
    cls = type(message)
    encoder = _encoders.get((cls, version)) or encoder_of(cls, version)
    try:
        encoder(message, pieces.append)
    except CodecError:
        raise
    except (StructError, AttributeError, TypeError, ValueError, OverflowError) as error:
        raise CannotEncode(f"{cls.__name__} v{version}: {error}") from error
    return pieces


def encode_bytes(message: object, version: int) -> bytes:
    """A message whose records are all in memory, in one piece."""
    pieces: list[Any] = encode(message, version)
    return b"".join(pieces)


def decoder_of(cls: type[Any], version: int) -> Decoder:
    """Compile ahead of use; the hot ones are warmed this way at start."""
    key = cls, version
    if key not in _decoders:
        _refuse_unknown(cls, version)
        _decoders[key] = compile_decoder(cls, version)
    return _decoders[key]


def encoder_of(cls: type[Any], version: int) -> Encoder:
    """Compile ahead of use; the hot ones are warmed this way at start."""
    key = cls, version
    if key not in _encoders:
        _refuse_unknown(cls, version)
        _encoders[key] = compile_encoder(cls, version)
    return _encoders[key]


def limited_decoder_of(cls: type[Any], version: int) -> Decoder:
    """For what strangers send: more than MAX_ELEMENTS_AT_ONCE elements are TooManyElements."""
    _refuse_unknown(cls, version)
    return compile_limited_decoder(cls, version)


def sliced_decoder_of(cls: type[Any], version: int) -> SlicedDecoder:
    """For messages of so many elements that others must have their turn in between."""
    key = cls, version
    if key not in _sliced_decoders:
        _refuse_unknown(cls, version)
        _sliced_decoders[key] = compile_sliced_decoder(cls, version)
    return _sliced_decoders[key]


def sliced_encoder_of(cls: type[Any], version: int) -> SlicedEncoder:
    """For messages of so many elements that others must have their turn in between."""
    key = cls, version
    if key not in _sliced_encoders:
        _refuse_unknown(cls, version)
        _sliced_encoders[key] = compile_sliced_encoder(cls, version)
    return _sliced_encoders[key]


def _refuse_unknown(cls: type[Any], version: int) -> None:
    if version not in cls.versions:
        raise UnsupportedVersion(f"{cls.__name__} has no version {version}")
