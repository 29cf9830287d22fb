"""`levada groups`: which groups the flags mean."""

import pytest

from levada.cli.groups import _is_wanted, add_arguments
from levada.cli.kit.parser import ToolParser
from levada.client.admin import GroupListing, GroupState, GroupType

GROUPS = {
    "offsets": ("", GroupType.CLASSIC),
    "classic": ("consumer", GroupType.CLASSIC),
    "modern": ("consumer", GroupType.CONSUMER),
    "connect": ("connect", GroupType.CLASSIC),
    "share": ("share", GroupType.SHARE),
    "streams": ("streams", GroupType.STREAMS),
    "untold": ("consumer", GroupType.UNKNOWN),
}


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("", list(GROUPS)),
        ("--consumer", ["offsets", "classic", "modern", "untold"]),
        ("--share", ["share"]),
        ("--streams", ["streams"]),
        ("--group-type CLASSIC", ["offsets", "classic", "connect"]),
        ("--group-type consumer", ["modern"]),
        ("--protocol consumer", ["classic", "modern", "untold"]),
        ("--protocol=", ["offsets"]),
        ("--protocol consumer --group-type classic", ["classic"]),
        ("--protocol connect --group-type consumer", []),
    ],
)
def test_groups_are_chosen_by_type_and_protocol(line: str, wanted: list[str]) -> None:
    parser = ToolParser(prog="levada groups")
    add_arguments(parser)
    arguments = parser.read(["--list", *line.split()])
    listings = [
        GroupListing(name, protocol, group_type, GroupState.EMPTY) for name, (protocol, group_type) in GROUPS.items()
    ]
    assert [group.group_id for group in listings if _is_wanted(group, arguments)] == wanted
