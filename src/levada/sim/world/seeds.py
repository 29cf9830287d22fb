"""Every source of chance in a simulation, derived from its seed and the purpose it serves."""

import hashlib
import random


def derive(seed: int, *purpose: str) -> random.Random:
    """A generator of its own for each purpose, so that one more draw here changes nothing there."""
    text = "\x00".join([str(seed), *purpose])
    # Never hash(): it differs between processes for strings.
    return random.Random(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest()))
