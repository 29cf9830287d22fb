"""Picks the compiled templates where they were built, and their pure twins where they were not."""

# All compiled units are built or none is, so the record kernel has warned already.
try:
    from levada.broker._request_templates import CachePrefetch, RequestTemplate, ResponseTemplate
except ImportError:
    from levada.broker.pure_request_templates import CachePrefetch, RequestTemplate, ResponseTemplate  # type: ignore[assignment]

__all__ = ["CachePrefetch", "RequestTemplate", "ResponseTemplate"]
