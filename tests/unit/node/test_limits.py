"""What a node says about the limits of its machine."""

from levada.broker.broker_config import BrokerConfig
from levada.node.limits import connection_limits, connections_possible, files_kept_open, open_files_warning
from levada.node.settings import node_settings


def test_scenario_9_a_limit_below_segments_times_three_is_named_with_the_way_out() -> None:
    assert open_files_warning(1_024, 256) is None
    warning = open_files_warning(1_024, 1_000)
    assert warning is not None
    assert "1024 open files are allowed and 3256 wanted" in warning
    assert "ulimit -n 3256" in warning


def test_half_of_the_allowance_is_left_for_connections() -> None:
    assert files_kept_open(1_024) == 512
    assert files_kept_open(300) == 44
    assert files_kept_open(100) == 16


def test_connections_leave_room_for_the_logs_and_the_rest() -> None:
    for allowed in (64, 256, 1_024, 4_096, 65_536, 1 << 20):
        possible = connections_possible(allowed)
        assert possible >= allowed // 4
        assert allowed - possible - files_kept_open(allowed) >= min(allowed // 3, 192)
    assert connections_possible(16) == 1


def test_connection_limits_come_from_their_keys() -> None:
    settings = node_settings(
        {
            "listeners": "PLAINTEXT://localhost:0",
            "log.dirs": "unused",
            "node.id": "1",
            "max.connections": "7",
            "max.connections.per.ip": "3",
            "max.connections.per.ip.overrides": "[::1]:5,fe80:0::1:7 , 10.0.0.1:0",
            "connections.max.idle.ms": "1000",
        }
    )
    limits = connection_limits(BrokerConfig(settings.config), 1_024)
    assert limits.most_possible == connections_possible(1_024)
    assert (limits.max_connections, limits.max_per_ip, limits.idle_ms) == (7, 3, 1000)
    assert limits.per_ip_overrides == {"::1": 5, "fe80::1": 7, "10.0.0.1": 0}
