"""What Kafka requires of the keys of cleaning together, and of a change of them while a broker runs."""

from levada.model.group_checks import BrokerValue

THREADS = "log.cleaner.threads"
MEMORY = "log.cleaner.dedupe.buffer.size"
LEAST_BYTES_PER_THREAD = 1 << 20


def no_threads_fault(broker: BrokerValue) -> str | None:
    """Kafka divides by them, and says no more than that it cannot."""
    return None if broker(THREADS) >= 1 else f"{THREADS} must be at least 1, not {broker(THREADS)}"


def memory_fault(broker: BrokerValue) -> str | None:
    """What is wrong with the memory that each thread would have, or None; there are threads."""
    if broker(MEMORY) // broker(THREADS) > LEAST_BYTES_PER_THREAD:
        return None
    return f"{MEMORY} must be at least 1MB per cleaner thread."


def threads_fault(threads_now: int, threads: int) -> str | None:
    """What is wrong with another number of threads, or None."""
    if threads < threads_now // 2:
        return f"Log cleaner threads cannot be reduced to less than half the current value {threads_now}"
    if threads > threads_now * 2:
        return f"Log cleaner threads cannot be increased to more than double the current value {threads_now}"
    return None
