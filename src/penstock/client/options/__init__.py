"""The settings of producer, consumer and admin client, by Kafka's names.

`producer_options`, `consumer_options` and `admin_options` read what a user gives into `Options`; what they refuse is a
`penstock.client.errors.ConfigurationError`.
"""

from penstock.client.options.addresses import parse_addresses
from penstock.client.options.durations import OffsetResetStrategy, parse_duration_ms, parse_offset_reset
from penstock.client.options.options import Options, admin_options, consumer_options, producer_options

__all__ = [
    "OffsetResetStrategy",
    "Options",
    "admin_options",
    "consumer_options",
    "parse_addresses",
    "parse_duration_ms",
    "parse_offset_reset",
    "producer_options",
]
