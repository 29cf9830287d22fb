"""Each request names the response that the registry decodes for it."""

from typing import get_args

import pytest

from levada.protocol.api import ApiKey, request_class, response_class


@pytest.mark.parametrize("api", ApiKey, ids=lambda api: api.title)
def test_a_request_names_the_response_of_its_api(api: ApiKey) -> None:
    (named,) = get_args(vars(request_class(api))["__orig_bases__"][0])
    assert named.__forward_arg__ == response_class(api).__name__
