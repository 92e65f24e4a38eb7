"""What config.json adds to the requests to a model, and switches for parts of Choir; parts of `config`."""

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
    """What each request to a model has beside what Choir writes."""

    top_p: float | None = Field(default=None, gt=0, le=1)
    """Nucleus sampling; null: it is not sent."""
    provider_routing: JsonObject | None = None
    """OpenRouter's choice of providers, sent as `provider`: `{"order": [...], "allow_fallbacks": false}`."""
    extra_body: Annotated[JsonObject, AfterValidator(_free_fields)] = Field(default_factory=dict)
    """Further fields of the request, as the provider names them; they override the settings above."""
    extra_headers: Annotated[dict[str, str], AfterValidator(_free_headers)] = Field(
        default_factory=dict
    )
    """Further headers; no keys, which belong in secrets.json."""

    def fields(self) -> JsonObject:
        """Return what is added to the body of a request."""
        added: JsonObject = {}
        if self.top_p is not None:
            added["top_p"] = self.top_p
        if self.provider_routing is not None:
            added["provider"] = self.provider_routing
        return {**added, **self.extra_body}


class FeatureFlags(Wire):
    """Switches for parts of what agents do, all on unless config.json says otherwise."""

    message_times: bool = True
    """Each message of the user says when it was sent."""
    model_retries: bool = True
    """A model call that got no answer is tried again before the user hears of it."""
    json_mode: bool = True
    """Where Choir needs JSON of a model, the endpoint is asked for its JSON mode first."""
    proposals: bool = True
    """Agents may propose changes of themselves, with the tools `choir.propose.*`."""
    browsing: bool = True
    """Agents may use the browser, with `choir.web.browse`."""
