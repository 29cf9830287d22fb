"""What each part of the admin client is built on."""

import inspect

from levada.client.admin.request_router import RequestRouter
from levada.client.admin.routing import Routing
from levada.client.arguments import checked


class AdminPart:
    """A theme of administration; `Admin` is all of them together. Every call has its arguments checked."""

    _requests: RequestRouter
    _routing: Routing

    def __init_subclass__(cls) -> None:
        for name, member in list(vars(cls).items()):
            if inspect.iscoroutinefunction(member) and not name.startswith("_"):
                setattr(cls, name, checked(member))
