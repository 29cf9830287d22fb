"""People write a timestamp type in any case; Kafka's own spelling goes over the wire."""

import argparse

import pytest

from levada.cli.configs.flags import settings_to_add
from levada.cli.topics.flags import setting
from levada.model.timestamp_types import as_kafka_writes


@pytest.mark.parametrize("given", ["logAppendTime", "LOGAPPENDTIME", "logappendtime", "LogAppendTime"])
def test_the_tools_take_a_timestamp_type_in_any_case(given: str) -> None:
    arguments = argparse.Namespace(add_config_file=None, add_config=[f"message.timestamp.type={given},segment.ms=5"])
    assert setting(f"message.timestamp.type={given}") == ("message.timestamp.type", "LogAppendTime")
    assert settings_to_add(arguments) == {"message.timestamp.type": "LogAppendTime", "segment.ms": "5"}


def test_what_is_no_timestamp_type_stays_as_it_is() -> None:
    assert as_kafka_writes("message.timestamp.type", "sometime") == "sometime"
    assert as_kafka_writes("cleanup.policy", "createtime") == "createtime"
