"""The features this release knows, by the names and levels of Apache's."""

from levada.metadata.records import BrokerFeature

FEATURES = (
    BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30),
    BrokerFeature(name="transaction.version", min_supported_version=0, max_supported_version=2),
    BrokerFeature(name="group.version", min_supported_version=0, max_supported_version=1),
)
"""Levels of `metadata.version` stand for the record formats of Apache 3.3 to 4.3."""
