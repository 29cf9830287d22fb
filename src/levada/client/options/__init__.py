"""The settings of producer, consumer and admin client, by Kafka's names.

`producer_options`, `consumer_options` and `admin_options` read what a user gives into `Options`; what they refuse is a
`levada.client.errors.ConfigurationError`.
"""

from levada.client.options.addresses import parse_addresses
from levada.client.options.durations import OffsetResetStrategy, parse_duration_ms, parse_offset_reset
from levada.client.options.options import Options, admin_options, consumer_options, producer_options

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
