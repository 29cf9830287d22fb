"""What can go wrong between objects and bytes."""


class CodecError(Exception):
    """The root of this package's errors."""


class MalformedMessage(CodecError):
    """Bytes that are not the message they claim to be; the one error any decoder raises."""


class TooManyElements(CodecError):
    """More elements than are decoded in one go, or at all."""


class CannotEncode(CodecError):
    """A value that the wanted version has no way to carry."""


class UnsupportedVersion(CodecError):
    """A version that the message does not have."""
