"""What our consumer does with any broker, Apache's or ours."""

from tests.clients import position_cases, reading_cases

CASES = [*reading_cases.CASES, *position_cases.CASES]
