"""Interpretation of tool results: the text of a failure, and the source of an output. Pure.

The agent and memory read the same events and must agree: on the text by which known failures are found, and
on how far a result is trusted. A note that an agent writes after it read a page is trusted no more than the
page. See docs/design/security.md.
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from choir_common.wire.agent_questions import QuestionOrigin
from choir_common.wire.events import ToolStatus
from choir_common.wire.model import JsonObject

MAX_FAILURE_CHARS = 600
"""Characters. The beginning and the end of a long message are kept: where it failed, and why."""
SEEN_BEFORE = "seen_before"
"""Key in a failed call's output under which the agent puts remembered failures."""
ORIGIN = "origin"
"""Key in the output of an external tool whose manifest states another origin than `tool`."""

OutputOrigin = Literal["choir", "jobs", "tool", "web"]


@dataclass(frozen=True, slots=True)
class OutputSource:
    """Origin and trust of a tool's output."""

    origin: OutputOrigin
    trust: int
    """From 0 (none) to 100 (full); texts that rest on several sources get the lowest."""


OWN_OUTPUT = OutputSource("choir", 50)
"""Choir's own text about the agent's actions; it adds no source to a turn."""
JOB_OUTPUT = OutputSource("jobs", 30)
"""Reports of core jobs and answers of other agents, which may repeat text from outside."""
TOOL_OUTPUT = OutputSource("tool", 30)
"""Files, programs and services."""
OUTSIDE_OUTPUT = OutputSource("web", 10)
"""Text that outsiders wrote, such as web pages and mail."""

# Events contain the name of a tool, not its manifest. A test compares this table with the manifests.
SOURCE_BY_TOOL = {
    **dict.fromkeys(
        (
            "choir.core.cancel",
            "choir.core.inject",
            "choir.core.report",
            "choir.core.spawn",
            "choir.memory.collections",
            "choir.memory.compact",
            "choir.memory.query",
            "choir.memory.upsert",
            "choir.propose.config_change",
            "choir.propose.repo_change",
            "choir.propose.skill",
            "choir.propose.tool",
            "choir.schedule.create",
            "choir.schedule.delete",
            "choir.schedule.update",
            "choir.skill.start",
            "choir.skill.transition",
        ),
        OWN_OUTPUT,
    ),
    **dict.fromkeys(("choir.agent.ask", "choir.core.list"), JOB_OUTPUT),
    **dict.fromkeys(
        (
            "choir.client.call",
            "choir.client.tools",
            "choir.email.check",
            "choir.email.receive",
            "choir.email.send",
            "choir.web.browse",
            "choir.web.search",
        ),
        OUTSIDE_OUTPUT,
    ),
}


def output_source(tool: str, output: JsonObject) -> OutputSource:
    """Return the source of a result; an external tool's result may only lower its own trust."""
    source = SOURCE_BY_TOOL.get(tool)
    if source is not None:
        return source
    return OUTSIDE_OUTPUT if output.get(ORIGIN) == OUTSIDE_OUTPUT.origin else TOOL_OUTPUT


def record_source(tool: str, output: JsonObject, source: OutputSource) -> JsonObject:
    """Return the output with its origin, if that does not follow from the tool's name."""
    if output_source(tool, output) == source:
        return output
    return {**output, ORIGIN: source.origin}


def question_trust(question: QuestionOrigin) -> int:
    """Return the trust of another agent's question: that of a program, or less if its lane deserves less."""
    return min(TOOL_OUTPUT.trust, question.holds.trust)


def failure_text(tool: str, status: ToolStatus, output: JsonObject) -> str | None:
    """Return the text of a failed call; None if it did not fail, or was not allowed to run.

    A command with an exit code other than 0 has failed, although the tool that ran it succeeded.
    """
    # The agent handles the failures of Choir's own tools at once; they are not remembered.
    if output_source(tool, output).origin in ("choir", "jobs"):
        return None
    exit_code = output.get("exit_code")
    if status == "error":
        text = " ".join(str(output[name]) for name in ("code", "message") if output.get(name))
    elif status == "success" and isinstance(exit_code, int) and exit_code != 0:
        streams = (output.get("stderr"), output.get("stdout"))
        stream = next((it for it in map(_text, streams) if it.strip()), "")
        text = f"exit code {exit_code}: {stream.strip()}"
    else:
        return None
    return _truncate_middle(text)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _truncate_middle(text: str) -> str:
    text = text.replace("\x00", "").strip()
    half = MAX_FAILURE_CHARS // 2
    return text if len(text) <= MAX_FAILURE_CHARS else f"{text[:half]} … {text[-half:]}"


def returns_outside_text(tool: str, output: JsonObject) -> bool:
    """Return whether outsiders wrote the text of a result, or one of the hits of a memory search."""
    if tool == "choir.memory.query":
        hits = output.get("found")
        return isinstance(hits, list) and any(map(_is_outside_hit, hits))
    return output_source(tool, output) == OUTSIDE_OUTPUT


def _is_outside_hit(hit: JsonValue) -> bool:
    trust = hit.get("trust") if isinstance(hit, dict) else None
    return isinstance(trust, int) and trust <= OUTSIDE_OUTPUT.trust
