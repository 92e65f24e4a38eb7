"""Conversion of job directives to tool calls, and of their results to text. Pure. Used by `answers`."""

from collections.abc import Sequence

import orjson
from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_local.rehearsal.directives import JobDirective
from choir_local.rehearsal.score import ScriptedCall
from choir_local.rehearsal.turn import ToolResult

_DONE = {"spawn": "started", "inject": "instructed", "cancel": "cancelled"}


def job_call(order: JobDirective) -> ScriptedCall:
    """Return the tool call for one directive."""
    arguments: JsonObject = {"job_name": order.name} if order.name else {}
    match order.verb:
        case "spawn":
            arguments["task_spec"] = order.text
        case "inject":
            arguments["content"] = order.text
        case "cancel" | "list":
            pass
    return ScriptedCall(name=f"choir.core.{order.verb}", arguments=arguments)


def report_call(kind: str, text: str) -> ScriptedCall:
    """Return the tool call with which a core job reports."""
    output: JsonObject = (
        {"kind": "progress", "body": {"phase": text}}
        if kind == "say"
        else {"kind": "need_info", "body": {"missing": text}}
    )
    return ScriptedCall(name="choir.core.report", arguments=output)


def describe_job_results(orders: Sequence[JobDirective], results: Sequence[ToolResult]) -> str:
    """Return the result of each directive, one per line."""
    answered = [result for result in results if result.name.startswith("choir_core_")]
    lines = [
        _tell(order, answered[i].text if i < len(answered) else "")
        for i, order in enumerate(orders)
    ]
    return "\n".join(lines)


def _tell(order: JobDirective, text: str) -> str:
    status, output = _read(text)
    if order.verb == "list":
        return f"Core jobs: {orjson.dumps(output).decode()}"
    if status == "success":
        return f"Core job {order.name}: {_DONE[order.verb]}."
    why = output.get("message") if isinstance(output, dict) else None
    return f"Core job {order.name}: not {_DONE[order.verb]} ({why or status or 'no answer'})."


def _read(text: str) -> tuple[str, JsonValue]:
    try:
        answer = orjson.loads(text)
    except orjson.JSONDecodeError:
        return "", None
    if not isinstance(answer, dict):
        return "", None
    return str(answer.get("status", "")), answer.get("output")
