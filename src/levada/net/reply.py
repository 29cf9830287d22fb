"""What a request is answered with."""

from typing import TypeAlias

from levada.protocol.codec import Piece
from levada.world.disk import FileRange

Reply: TypeAlias = list[Piece] | bytes | None
"""The pieces of an encoded response, or all of it with its size in front; None where the protocol sends nothing."""


class CloseConnection(Exception):
    """The client broke the protocol in a way that has no answer."""


def bytes_in_memory(reply: Reply) -> int:
    if isinstance(reply, bytes):
        return len(reply)
    return sum(len(piece) for piece in reply or () if not isinstance(piece, FileRange))
