"""What each part of the admin client is built on."""

from levada.client.admin.asking import Asking
from levada.client.admin.routing import Routing


class Part:
    """A theme of administration; `Admin` is all of them together."""

    _asking: Asking
    _routing: Routing
