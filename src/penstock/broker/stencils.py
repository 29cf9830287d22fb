"""Picks the compiled stencils where they were built, and their pure twins where they were not."""

# All compiled units are built or none is, so the record kernel has warned already.
try:
    from penstock.broker._stencils import Memory, ReplyStencil, RequestStencil
except ImportError:
    from penstock.broker.pure_stencils import Memory, ReplyStencil, RequestStencil  # type: ignore[assignment]

__all__ = ["Memory", "ReplyStencil", "RequestStencil"]
