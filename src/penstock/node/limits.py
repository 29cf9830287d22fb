"""What the machine must allow for a node to run well, checked when it starts."""

FILES_PER_SEGMENT = 3
RESERVED_FILES = 256
"""For connections, checkpoints and the process itself."""


def open_files_warning(allowed: int, segments: int) -> str | None:
    """What to say when not every file of every segment could be open at once; None when they could."""
    wanted = segments * FILES_PER_SEGMENT + RESERVED_FILES
    if wanted <= allowed:
        return None
    return (
        f"{allowed} open files are allowed and {wanted} wanted ({segments} segments x {FILES_PER_SEGMENT} files, "
        f"{RESERVED_FILES} for the rest): segments are opened and closed as they are read; "
        f"raise the limit with ulimit -n {wanted}"
    )


def files_kept_open(allowed: int) -> int:
    """How many files of logs may stay open; the rest of the allowance is for connections."""
    return max(min(allowed // 2, allowed - RESERVED_FILES), 16)
