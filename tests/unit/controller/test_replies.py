"""The table of decisions cannot say in types that a request's function gives its reply; this says it."""

from collections.abc import Callable
from typing import Any, ForwardRef, get_args, get_type_hints

import pytest

from levada.controller.controller import DECIDE
from levada.controller.decision import ControllerDecision
from levada.protocol.declare import AnsweredBy


@pytest.mark.parametrize(("request_", "decide"), DECIDE.items(), ids=lambda one: one.__name__)
def test_a_request_is_decided_with_the_reply_that_it_names(
    request_: type[AnsweredBy[object]], decide: Callable[..., ControllerDecision[Any]]
) -> None:
    hints = get_type_hints(decide)
    assert hints["request"] is request_
    (named,) = get_args(request_.__orig_bases__[0])
    (given,) = get_args(hints["return"])
    assert given.__name__ == (named.__forward_arg__ if isinstance(named, ForwardRef) else named.__name__)
