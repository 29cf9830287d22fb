"""The bytes of one simulated file: what the process sees, and what a power cut may leave of them."""

import random
import sys
from dataclasses import dataclass
from typing import Final

from levada.model.buffers import Buffer

NEVER: Final = sys.maxsize
IMAGES_KEPT: Final = 8
LEAST_STALE_BYTES: Final = 64
"""A device leaves whole sectors as they were, of 512 bytes or more; here fewer, for small files to have several."""


@dataclass(slots=True, eq=False)
class PageImage:
    """An earlier content of the file: the first `base` bytes of the present one, then `rest`."""

    base: int
    rest: bytes
    cut_before: int
    """The smallest size the file was truncated to between the image before this one and this one."""
    pinned: bool = False

    def size(self) -> int:
        return self.base + len(self.rest)


class Pages:
    """The page cache of a file over its device.

    The first image is what the last sync put on the device. Every truncation since leaves one more, because the device
    may hold the file as it was before; what a sync covers is an image too, taken when the sync began.
    """

    def __init__(self) -> None:
        self.data = bytearray()
        self.linked = True
        self.modified_ms = 0
        self._images = [PageImage(0, b"", NEVER)]
        self._cut = NEVER
        # After a failed sync Linux forgets that the pages are dirty: a later sync succeeds without writing them.
        self._limbo: list[tuple[int, int]] = []
        self.failed_syncs = 0

    def append(self, data: Buffer) -> None:
        self.data += data

    def truncate(self, size: int) -> None:
        if size >= len(self.data):
            self.data.extend(bytes(size - len(self.data)))
            return
        for image in self._images:
            if size < image.base:
                image.rest = bytes(self.data[size : image.base]) + image.rest
                image.base = size
        self._images.append(PageImage(size, bytes(self.data[size:]), self._cut))
        self._cut = size
        del self.data[size:]
        self._limbo = [(start, min(end, size)) for start, end in self._limbo if start < size]
        self._forget_old_images()

    def begin_sync(self) -> PageImage:
        """A sync covers what was written when it began; what comes during it may or may not be on the device."""
        image = PageImage(len(self.data), b"", self._cut, pinned=True)
        self._images.append(image)
        self._cut = NEVER
        return image

    def end_sync(self, image: PageImage) -> None:
        image.pinned = False
        if image in self._images:
            # Otherwise a sync that began later has ended before, and covers this one.
            del self._images[: self._images.index(image)]

    def give_up_sync(self, image: PageImage) -> None:
        """Nothing is known of what it covered; a later sync covers that too."""
        image.pinned = False

    def fail_sync(self, image: PageImage) -> None:
        self.failed_syncs += 1
        image.pinned = False
        if image in self._images:
            self._limbo.append((self._safe_size(self._images.index(image)), image.size()))

    def lose_power(self, chance: random.Random) -> None:
        """Become one of the contents that the device may show after the power cut."""
        content, safe = self._choose_image(chance)
        survived = bytearray(content[:safe]) + tear(content[safe:], chance)
        for start, end in self._limbo:
            if chance.random() < 0.5:
                end = min(end, len(survived))
                survived[start:end] = bytes(max(0, end - start))
        self.data = survived
        self._images = [PageImage(len(survived), b"", NEVER)]
        self._cut = NEVER
        self._limbo = []

    def _choose_image(self, chance: random.Random) -> tuple[bytes, int]:
        """A content, and how many bytes at its start are certainly on the device."""
        if chance.random() < 0.5:
            return bytes(self.data), min(self._safe_size(len(self._images) - 1), self._cut)
        index = chance.randrange(len(self._images))
        image = self._images[index]
        return bytes(self.data[: image.base]) + image.rest, self._safe_size(index)

    def _safe_size(self, index: int) -> int:
        cuts = [image.cut_before for image in self._images[1 : index + 1]]
        return min([self._images[0].size(), *cuts])

    def _forget_old_images(self) -> None:
        if len(self._images) <= IMAGES_KEPT:
            return
        for index in range(1, len(self._images) - 1):
            if not self._images[index].pinned:
                later = self._images[index + 1]
                later.cut_before = min(later.cut_before, self._images[index].cut_before)
                del self._images[index]
                return


def tear(unsynced: bytes, chance: random.Random) -> bytes:
    """What the device may hold of bytes that were written and not synced."""
    size = len(unsynced)
    if not size:
        return b""
    start = chance.randint(0, size)
    end = chance.randint(start, size)
    # Fewer are stale at the end of a file alone. A batch's offset, which its CRC does not cover, is never stale alone.
    behind_stale = unsynced[end:] if end - start >= LEAST_STALE_BYTES else b""
    outcomes = (
        unsynced,
        b"",
        unsynced[:start],
        # ext4 and xfs may extend the length before the data is there.
        unsynced[:start] + bytes(size - start),
        unsynced[:start] + bytes(end - start) + unsynced[end:],
        unsynced[:start] + chance.randbytes(end - start) + behind_stale,
    )
    return chance.choice(outcomes)
