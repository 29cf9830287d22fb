"""Levels that `levada features` reads from flags, and the lines it makes of outcomes."""

from argparse import Namespace

import pytest

from levada.cli.feature_levels import METADATA_VERSION, default_levels
from levada.cli.features import description_lines, name_and_level, outcome_line, wanted_updates
from levada.cli.kit.refusals import Refused
from levada.client.admin import Features, FeatureUpdate, UpgradeType, VersionRange
from levada.client.errors import KafkaError


def flags(command: str, **given: object) -> Namespace:
    return Namespace(
        **{"command": command, "metadata": None, "release_version": None, "feature": None, "unsafe": False} | given
    )


def test_a_release_sets_all_features_it_turns_on() -> None:
    raised = wanted_updates(flags("upgrade", release_version="3.9"))
    assert {name: update.level for name, update in raised.items()} == {METADATA_VERSION: 21, "kraft.version": 1}
    lowered = wanted_updates(flags("downgrade", release_version="3.9"))
    assert {name: update.level for name, update in lowered.items()} == default_levels("3.9")
    assert {update.upgrade_type for update in lowered.values()} == {UpgradeType.SAFE_DOWNGRADE}


def test_features_are_lowered_as_safely_as_is_asked_for() -> None:
    unsafe = FeatureUpdate(0, UpgradeType.UNSAFE_DOWNGRADE)
    assert wanted_updates(flags("disable", feature=["group.version"], unsafe=True)) == {"group.version": unsafe}
    assert wanted_updates(flags("downgrade", feature=["x=0"], unsafe=True)) == {"x": unsafe}


def test_a_metadata_version_and_features_go_together() -> None:
    updates = wanted_updates(flags("upgrade", metadata="3.7-IV2", feature=["group.version=1"]))
    assert {name: update.level for name, update in updates.items()} == {METADATA_VERSION: 17, "group.version": 1}
    with pytest.raises(Refused, match=r"metadata\.version was specified more than once"):
        wanted_updates(flags("upgrade", metadata="3.7-IV2", feature=["metadata.version=3"]))


@pytest.mark.parametrize("text", ["x=", "x=32768", "x=1.0", "x"])
def test_levels_are_short_numbers(text: str) -> None:
    with pytest.raises(Refused, match="Can't parse feature=level string"):
        name_and_level(text)


def test_outcomes_are_told_in_apaches_words() -> None:
    error = KafkaError("no.")
    assert outcome_line("upgrade", "x", 3, None, is_dry_run=False) == "x was upgraded to 3."
    assert outcome_line("downgrade", "x", 3, None, is_dry_run=True) == "x can be downgraded to 3."
    assert outcome_line("disable", "x", 0, None, is_dry_run=False) == "x was disabled."
    assert outcome_line("upgrade", "x", 3, error, is_dry_run=True) == "Can not upgrade x to 3. no."
    assert outcome_line("disable", "x", 0, error, is_dry_run=False) == "Could not disable x. no."


def test_a_feature_that_is_not_in_force_has_level_0() -> None:
    features = Features(finalized={}, finalized_epoch=None, supported={"share.version": VersionRange(0, 1)})
    (line,) = description_lines(features)
    assert line.split() == [
        "Feature:", "share.version", "SupportedMinVersion:", "0", "SupportedMaxVersion:", "1",
        "FinalizedVersionLevel:", "0", "Epoch:", "-",
    ]  # fmt: skip
