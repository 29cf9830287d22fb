"""Warns of settings for groups that are legal and unwise, those of the broker and those of one group."""

import logging
from collections.abc import Mapping

from levada.broker.broker_config import BrokerConfig
from levada.broker.settings import group_settings
from levada.model.group_checks import session_warning

logger = logging.getLogger(__name__)

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def warn_of_broker_settings(config: BrokerConfig) -> None:
    session, heartbeat = f"group.{SESSION}", f"group.{HEARTBEAT}"
    warning = session_warning(session, config[session], heartbeat, config[heartbeat])
    if warning is not None:
        logger.warning("%s", warning)


def warn_of_group_settings(config: BrokerConfig, group_id: str, own: Mapping[str, str]) -> None:
    """Only where the group says something itself: of what it follows the broker's start has warned."""
    if SESSION not in own and HEARTBEAT not in own:
        return
    settings = group_settings(config).consumer
    session_ms, heartbeat_ms = settings.session_timeout_ms(own), settings.heartbeat_interval_ms(own)
    warning = session_warning(SESSION, session_ms, HEARTBEAT, heartbeat_ms)
    if warning is not None:
        logger.warning("group=%s %s", group_id, warning)
