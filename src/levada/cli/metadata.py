"""`levada metadata`: gives a coordinator that has lost its memory the metadata that brokers have kept."""

import argparse
from dataclasses import dataclass

from levada.cli.kit.processes import is_running
from levada.cli.kit.refusals import Refused, WrongUsage
from levada.doors.local_restore import restore_local
from levada.doors.zookeeper_address import parse_address
from levada.metadata.door import DoorError
from levada.metadata.image import Image
from levada.node.metadata_copy import Applied, read_copy
from levada.storage.identity import read_identity
from levada.world.real import run as run_loop
from levada.world.real_disk import RealDisk

LOCAL, ZOOKEEPER = "local:", "zookeeper://"


@dataclass(frozen=True, slots=True)
class Copy:
    directory: str
    node_id: int
    cluster_id: str
    applied: Applied


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True)
    restore = commands.add_parser(
        "restore", help="write what brokers have kept of the metadata into a coordinator that is empty"
    )
    restore.add_argument(
        "--data-dir", metavar="DIR", required=True,
        help="the first data directories of brokers, with commas between: the more, the less is lost",
    )  # fmt: skip
    restore.add_argument(
        "--coordinator", metavar="local:DIR|zookeeper://HOST:PORT,.../PATH", required=True, help="the empty one"
    )
    restore.add_argument("--dry-run", action="store_true", help="only say what would be restored")


def run(arguments: argparse.Namespace) -> int:
    if not arguments.coordinator.startswith((LOCAL, ZOOKEEPER)) or arguments.coordinator == LOCAL:
        raise WrongUsage(
            f"--coordinator must look like local:DIR or zookeeper://HOST:PORT/PATH, not {arguments.coordinator}"
        )
    directories = [each.strip() for each in arguments.data_dir.split(",") if each.strip()]
    copies = [_copy_in(directory) for directory in directories]
    newest = max(copies, key=lambda copy: (copy.applied.image.offset, copy.applied.epoch))
    for copy in copies:
        if copy.cluster_id != newest.cluster_id:
            raise Refused(
                f"{copy.directory} is of cluster {copy.cluster_id}, {newest.directory} of {newest.cluster_id}"
            )
        print(f"broker {copy.node_id}: offset {copy.applied.image.offset}, controller epoch {copy.applied.epoch}")
    image = newest.applied.image
    partitions = sum(len(topic.partitions) for topic in image.topics.values())
    print(
        f"cluster {newest.cluster_id}: {len(image.topics)} topics with {partitions} partitions,"
        f" {len(image.brokers)} brokers, as broker {newest.node_id} knew them"
    )
    missing = sorted(set(image.brokers) - {copy.node_id for copy in copies})
    if missing:
        named = ", ".join(map(str, missing))
        print(
            f"not looked at: broker {named}. One that knows more will refuse this coordinator; add its directory then."
        )
    print("What was changed after that is not known: topics that were made since are lost, deleted ones are back.")
    if arguments.dry_run:
        return 0
    try:
        _restore(arguments.coordinator, newest)
    except DoorError as error:
        raise Refused(str(error)) from error
    print(f"restored offset {image.offset}; start the brokers with --coordinator {arguments.coordinator}")
    return 0


def _restore(coordinator: str, copy: Copy) -> None:
    image, epoch = copy.applied.image, copy.applied.epoch + 1
    if coordinator.startswith(LOCAL):
        restore_local(RealDisk(), coordinator.removeprefix(LOCAL), copy.cluster_id, image, epoch)
    else:
        run_loop(_restore_zookeeper(coordinator, copy.cluster_id, image, epoch))


async def _restore_zookeeper(coordinator: str, cluster_id: str, image: Image, epoch: int) -> None:
    # What of it needs kazoo says so where that is missing.
    from levada.doors.zookeeper_restore import restore_zookeeper

    address = parse_address(coordinator)
    await restore_zookeeper(address.hosts, address.chroot, cluster_id, image, epoch)


def _copy_in(directory: str) -> Copy:
    if is_running(directory):
        raise Refused(f"a broker runs in {directory}; stop all brokers of the cluster first")
    disk = RealDisk()
    identity = read_identity(disk, directory)
    try:
        applied = read_copy(disk, directory)
    except DoorError as error:
        raise Refused(str(error)) from error
    if identity is None or applied is None:
        raise Refused(f"{directory} has no copy of a cluster's metadata: is it the first data directory of a broker?")
    return Copy(directory, identity.node_id, identity.cluster_id, applied)
