"""Picks the compiled way into a batch where it was built, and its pure twin where it was not."""

# All compiled units are built or none is, so the record kernel has warned already.
try:
    from levada.client.producer._front import Front, Ticket
except ImportError:
    from levada.client.producer.pure_front import Front, Ticket  # type: ignore[assignment]

__all__ = ["Front", "Ticket"]
