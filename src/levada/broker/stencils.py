"""Picks the compiled stencils where they were built, and their pure twins where they were not."""

# All compiled units are built or none is, so the record kernel has warned already.
try:
    from levada.broker._stencils import Memory, ReplyStencil, RequestStencil
except ImportError:
    from levada.broker.pure_stencils import Memory, ReplyStencil, RequestStencil  # type: ignore[assignment]

__all__ = ["Memory", "ReplyStencil", "RequestStencil"]
