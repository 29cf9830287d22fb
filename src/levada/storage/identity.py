"""Who a data directory belongs to: Kafka's meta.properties."""

from dataclasses import dataclass

from levada.model.config import ConfigError
from levada.model.hashes import uuid_to_text
from levada.model.properties import parse_properties
from levada.storage.checkpoint import read_text, write_atomically
from levada.world.clock import Entropy
from levada.world.disk import Disk

FILE_NAME = "meta.properties"


@dataclass(frozen=True, slots=True)
class DirectoryIdentity:
    cluster_id: str
    node_id: int
    directory_id: str


def load_identity(disk: Disk, directory: str, node_id: int) -> DirectoryIdentity | None:
    """The directory's identity, if it has one; ConfigError when it is another node's."""
    found = read_identity(disk, directory)
    if found is not None and found.node_id != node_id:
        raise ConfigError(
            f"{directory} belongs to node {found.node_id}; start it with that id or use another directory"
        )
    return found


def read_identity(disk: Disk, directory: str) -> DirectoryIdentity | None:
    """Whose the directory is, if it says so."""
    text = read_text(disk, directory, FILE_NAME)
    if text is None:
        return None
    properties = parse_properties(text)
    try:
        return DirectoryIdentity(
            properties["cluster.id"], int(properties["node.id"]), properties.get("directory.id", "")
        )
    except (KeyError, ValueError):
        raise ConfigError(f"{directory}/{FILE_NAME} is damaged; restore it or use another data directory") from None


def create_identity(disk: Disk, directory: str, node_id: int, cluster_id: str, entropy: Entropy) -> DirectoryIdentity:
    identity = DirectoryIdentity(cluster_id, node_id, uuid_to_text(new_uuid(entropy)))
    write_atomically(disk, directory, FILE_NAME, _as_text(identity))
    return identity


def new_uuid(entropy: Entropy) -> bytes:
    """A random (version 4) uuid; the text of none begins with `-`, which command lines would read as a flag."""
    while True:
        raw = bytearray(entropy.random_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        if not uuid_to_text(bytes(raw)).startswith("-"):
            return bytes(raw)


def _as_text(identity: DirectoryIdentity) -> str:
    return (
        "#\n"
        "version=1\n"
        f"cluster.id={identity.cluster_id}\n"
        f"node.id={identity.node_id}\n"
        f"directory.id={identity.directory_id}\n"
    )
