"""ACLs of a broker without an authorizer: there are none, and requests about them are refused as Apache's are."""

from levada.model.error_codes import ErrorCode
from levada.net.reply import CloseConnection

REFUSED = ErrorCode.SECURITY_DISABLED
NO_AUTHORIZER = "No Authorizer is configured."
"""What Apache's controller says, which creates and deletes them."""
NO_AUTHORIZER_HERE = "No Authorizer is configured on the broker"
"""What Apache's broker says, which describes them."""

UNKNOWN = 0
"""Of resource types, patterns, operations and permissions alike."""


def check_kinds(*kinds: int) -> None:
    """Apache takes a request with an unknown kind for one that cannot be read."""
    if UNKNOWN in kinds:
        raise CloseConnection("an ACL, or a filter of ACLs, of an unknown kind")
