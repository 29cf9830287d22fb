"""The named faults of record data, and the protocol error each one becomes when a broker answers."""


class RecordsError(Exception):
    """Anything wrong with record data that came from outside; never raised itself."""


class CorruptBatch(RecordsError):
    """Bytes that are not what their header says: lengths, checksum, compression, record structure.

    A broker answers CORRUPT_MESSAGE (2), and the client may send the batch again; but INVALID_RECORD where the checksum
    is right, since then the client itself wrote what cannot be read.
    """


class InvalidRecord(RecordsError):
    """A whole and undamaged batch that breaks a rule: old format, wrong count, control records from a client.

    A broker answers INVALID_RECORD (87); sending the batch again cannot help.
    """


class UnsupportedCompression(RecordsError):
    """A codec number that has no meaning; a broker answers UNSUPPORTED_COMPRESSION_TYPE (76)."""


class DecompressedTooLarge(RecordsError):
    """Compressed data that would grow beyond the caller's bound; a broker answers MESSAGE_TOO_LARGE (10)."""
