"""Which paths of checkpoints are on this machine's disk; without Spark, which takes long to load."""

from pathlib import Path


def scheme_of(path: str) -> str:
    """
    >>> scheme_of("file:///data"), scheme_of("hdfs://name:8020/data"), scheme_of("/data/a:b"), scheme_of("data")
    ('file', 'hdfs', '', '')
    """
    head, colon, _ = path.partition(":")
    return head.lower() if colon and "/" not in head else ""


def local_path(path: str) -> Path | None:
    """Where a path is on this machine's disk, as Hadoop understands it: no character has a meaning but / and :.

    >>> local_path("data"), local_path("file:///a#b?c%20d"), local_path("FILE:/data"), local_path("s3a://bucket/data")
    (PosixPath('data'), PosixPath('/a#b?c%20d'), PosixPath('/data'), None)
    """
    scheme = scheme_of(path)
    if not scheme:
        return Path(path)
    if scheme != "file":
        return None
    rest = path.partition(":")[2]
    if rest.startswith("//"):
        # What is before the next slash would be a machine.
        rest = "/" + rest[2:].partition("/")[2]
    return Path(rest)
