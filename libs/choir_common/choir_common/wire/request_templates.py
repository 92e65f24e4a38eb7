"""Additions to model requests, and feature flags; parts of `config`."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from choir_common.wire.json import JsonObject
from choir_common.wire.model import Wire

RESERVED_FIELDS = frozenset(
    {"model", "messages", "tools", "functions", "stream", "stream_options", "n", "response_format"}
)
RESERVED_HEADERS = frozenset(
    {
        *("authorization", "host", "connection", "transfer-encoding", "accept-encoding"),
        *("content-type", "content-length", "content-encoding", "expect", "upgrade"),
    }
)

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]{0,1000}")


def _free_fields(body: JsonObject) -> JsonObject:
    reserved = sorted(body.keys() & RESERVED_FIELDS)
    if reserved:
        raise ValueError(f"{', '.join(reserved)}: Choir itself writes that; leave it out")
    return body


def _free_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise ValueError(f"{name[:64]!r}: that is no header of HTTP with printable ASCII text")
        if name.lower() in RESERVED_HEADERS:
            raise ValueError(f"{name}: Choir itself writes that header; leave it out")
    return headers


class RequestTemplate(Wire):
    """Additions to each request to a model."""

    top_p: float | None = Field(default=None, gt=0, le=1)
    """Nucleus sampling; null: not sent."""
    provider_routing: JsonObject | None = None
    """OpenRouter's choice of providers, sent as `provider`: `{"order": [...], "allow_fallbacks": false}`."""
    extra_body: Annotated[JsonObject, AfterValidator(_free_fields)] = Field(default_factory=dict)
    """Additional request fields with the provider's names; they override the settings above."""
    extra_headers: Annotated[dict[str, str], AfterValidator(_free_headers)] = Field(
        default_factory=dict
    )
    """Additional headers; put keys into secrets.json instead."""

    def fields(self) -> JsonObject:
        """Return the fields to add to the body of a request."""
        added: JsonObject = {}
        if self.top_p is not None:
            added["top_p"] = self.top_p
        if self.provider_routing is not None:
            added["provider"] = self.provider_routing
        return {**added, **self.extra_body}


class FeatureFlags(Wire):
    """Feature flags for parts of what agents do; all are on by default."""

    message_times: bool = True
    """Prompts show when each user message was sent."""
    model_retries: bool = True
    """Retry a failed model call before the user is informed."""
    json_mode: bool = True
    """Where Choir needs JSON, request the endpoint's JSON mode first."""
    proposals: bool = True
    """Agents may propose changes to themselves, with the tools `choir.propose.*`."""
    browsing: bool = True
    """Agents may use the browser, with `choir.web.browse`."""
