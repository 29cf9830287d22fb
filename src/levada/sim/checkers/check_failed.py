"""What every checker raises."""


class CheckFailed(AssertionError):
    """A promise was broken."""
