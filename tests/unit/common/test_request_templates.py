"""What config.json adds to a model's requests, and what it must leave to Choir."""

from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from choir_common.wire.model_config import RequestTemplate


def template(**fields: Any) -> RequestTemplate:
    return RequestTemplate.model_validate_json(orjson.dumps(fields))


def test_nothing_is_added_unless_it_is_configured() -> None:
    assert template().body_fields() == {}


def test_sampling_routing_and_further_fields_are_added() -> None:
    routing = {"order": ["anthropic"], "allow_fallbacks": False}
    made = template(top_p=0.9, provider_routing=routing, extra_body={"seed": 7, "top_p": 0.5})
    assert made.body_fields() == {"top_p": 0.5, "provider": routing, "seed": 7}


@pytest.mark.parametrize("name", ["model", "messages", "tools", "stream", "n", "response_format"])
def test_a_field_that_choir_writes_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValidationError, match=f"{name}: Choir sets this itself"):
        template(extra_body={name: 1})


@pytest.mark.parametrize("name", ["Authorization", "content-type", "HOST", "Accept-Encoding"])
def test_a_header_that_choir_writes_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValidationError, match=f"{name}: Choir sets this header itself"):
        template(extra_headers={name: "x"})


@pytest.mark.parametrize(
    "headers", [{"a b": "x"}, {"": "x"}, {"X": "a\r\nAuthorization: b"}, {"X": "ü"}]
)
def test_what_is_no_header_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="not a valid HTTP header"):
        template(extra_headers=headers)


@pytest.mark.parametrize("top_p", [0, 1.1, -1])
def test_top_p_is_a_share(top_p: float) -> None:
    with pytest.raises(ValidationError):
        template(top_p=top_p)
