"""The OpenAPI document of a service: references that resolve, and security schemes.

Used by `service_app`, and by the routers, which declare the schemes as dependencies. The schemes only
document: each router has its own check.
"""

import warnings
from typing import Any

from fastapi import FastAPI
from fastapi.security import APIKeyHeader, HTTPBearer
from pydantic.warnings import UnsupportedFieldAttributeWarning

OPERATOR_TOKEN = HTTPBearer(
    scheme_name="operatorToken",
    description="The operator token. Not needed on choird's Unix socket, where file permissions decide.",
    auto_error=False,
)
GATEWAY_TOKEN = HTTPBearer(
    scheme_name="gatewayToken",
    description="The token that control and the gateway share.",
    auto_error=False,
)
LEASE_TOKEN = HTTPBearer(
    scheme_name="leaseToken",
    description="The lease token of an agent's session, sent with `X-Choir-Session-Id`.",
    auto_error=False,
)
WEBHOOK_SECRET = APIKeyHeader(
    name="X-Telegram-Bot-Api-Secret-Token",
    scheme_name="webhookSecret",
    description="The secret token that was registered with the webhook.",
    auto_error=False,
)
WEBHOOK_SIGNATURE = APIKeyHeader(
    name="webhook-signature",
    scheme_name="webhookSignature",
    description="The signature of the request by the gateway's secret, with `webhook-id` and "
    "`webhook-timestamp`, as in the Standard Webhooks specification.",
    auto_error=False,
)
HOOK_SIGNATURE = APIKeyHeader(
    name="webhook-signature",
    scheme_name="hookSignature",
    description="The signature of the request by the hook's secret; `hooks.NAME.signature` says in which "
    "headers.",
    auto_error=False,
)
META_SIGNATURE = APIKeyHeader(
    name="X-Hub-Signature-256",
    scheme_name="metaSignature",
    description="`sha256=` and the HMAC-SHA256 of the body, in hexadecimal digits, by the Meta app's secret.",
    auto_error=False,
)
LOCAL_REF, COMPONENT_REF = "#/$defs/", "#/components/schemas/"


class OpenApiApp(FastAPI):
    """A FastAPI app that accepts body schemas with `$defs` of their own."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        with warnings.catch_warnings():
            # FastAPI ignores it where it makes a validator, but models are built when they are first used
            warnings.simplefilter("ignore", UnsupportedFieldAttributeWarning)
            return share_definitions(super().openapi())


def share_definitions(document: dict[str, Any]) -> dict[str, Any]:
    """Move every `$defs` of a document to its components, and redirect the references; return it.

    A definition that differs from the component of the same name gets the suffix `DocumentContent`.
    """
    shared: dict[str, Any] = document.setdefault("components", {}).setdefault("schemas", {})
    _share(document.get("paths", {}), shared)
    return document


def _share(value: Any, shared: dict[str, Any]) -> None:
    match value:
        case dict():
            if "$defs" in value:
                _move(value, shared)
            for inner in value.values():
                _share(inner, shared)
        case list():
            for inner in value:
                _share(inner, shared)


def _move(schema: dict[str, Any], shared: dict[str, Any]) -> None:
    own = schema.pop("$defs")
    plain = {name: COMPONENT_REF + name for name in own}
    names = {
        name: name if shared.get(name) in (None, _pointed(own_schema, plain)) else f"{name}Body"
        for name, own_schema in own.items()
    }
    targets = {name: COMPONENT_REF + new for name, new in names.items()}
    for name, own_schema in own.items():
        shared[names[name]] = _pointed(own_schema, targets)
    pointed = _pointed(schema, targets)
    schema.clear()
    schema.update(pointed)


def _pointed(value: Any, targets: dict[str, str]) -> Any:
    """Return a schema with its local references replaced, in `$ref` and in discriminator mappings."""
    match value:
        case str() if value.startswith(LOCAL_REF):
            return targets.get(value.removeprefix(LOCAL_REF), value)
        case dict():
            return {key: _pointed(inner, targets) for key, inner in value.items()}
        case list():
            return [_pointed(inner, targets) for inner in value]
        case _:
            return value
