"""Reference of the HTTP API, made of the OpenAPI document of control.

The document depends on the routes only. They are built here from stand-ins for the services behind them, so
that no database and no message bus is needed. A test compares the paths with those of a real control service.
"""

import re
from collections.abc import Iterator
from typing import Any, cast

from choir_control.agents.host_tools.execute import HostToolExecutor
from choir_control.approvals.proposals.proposal_type import ApprovalIntake
from choir_control.wiring.configuration import ConfigurationServices
from choir_control.wiring.http import HttpServices
from choir_control.wiring.services import ControlServices

HEAD = """\
# HTTP API

Made of the OpenAPI document when the site is built. A running Choir serves the document at
`/v1/openapi.json`, for generators of clients. Operators send `Authorization: Bearer` with the
`operator-token` of `secrets.json`; the Unix socket of the state directory needs no token.
Errors are problems (RFC 9457) with a stable `code`. [The console over HTTP](../console.md) has examples
for curl, and the [Python client](../python-client.md) is typed.
"""
METHODS = ("get", "post", "put", "patch", "delete")


class StandIn:
    """A service whose methods routes do not call while they are built."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn()

    def __call__(self, *args: Any, **words: Any) -> Any:
        return StandIn()

    def __iter__(self) -> Iterator[Any]:
        return iter(())


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document of the host endpoint."""
    changes = StandIn()
    vars(changes)["routes"] = lambda: ConfigurationServices.routes(changes)  # type: ignore[arg-type]
    services = StandIn(
        config_changes=changes,
        # the types of these two describe verbs
        approvals=StandIn(proposals=StandIn(intake=object.__new__(ApprovalIntake))),
        host_tools=StandIn(executor=object.__new__(HostToolExecutor)),
    )
    return HttpServices(cast(ControlServices, services)).host_app.openapi()


def http_reference() -> str:
    """Return the page as Markdown."""
    groups: dict[str, list[str]] = {}
    for path, methods in openapi_document()["paths"].items():
        for method in METHODS:
            if method in methods:
                groups.setdefault(_group(path), []).append(_row(method, path, methods[method]))
    return HEAD + "".join(
        f"\n## {name}\n\n| request | what it does | body | response |\n|---|---|---|---|\n"
        + "\n".join(rows)
        + "\n"
        for name, rows in sorted(groups.items())
    )


def _group(path: str) -> str:
    words = [word for word in path.split("/") if word and not word.startswith("{")]
    return "/" + "/".join(words[: 2 if words[0] in ("v1", "openai") else 1])


def _row(method: str, path: str, operation: dict[str, Any]) -> str:
    text = operation.get("description") or operation.get("summary", "")
    text = re.sub(r"\s+", " ", text.split("\n\n")[0]).replace("|", r"\|")
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    answers = [
        f"{code} {_shape(answer.get('content', {}).get('application/json', {}))}".strip()
        for code, answer in operation["responses"].items()
        if code.startswith("2")
    ]
    return f"| `{method.upper()} {path}` | {text} | {_shape(body)} | {', '.join(answers)} |"


def _shape(content: dict[str, Any]) -> str:
    schema = content.get("schema", {})
    if schema.get("type") == "array":
        return f"list of {_shape({'schema': schema['items']})}"
    name = schema.get("$ref", "").rpartition("/")[2]
    return f"`{name}`" if name else schema.get("type", "") if schema else ""
