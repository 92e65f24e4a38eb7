"""Selection of the rehearsal model's next answer.

Called by `app` with the turn; `completion` renders the answer. Pure: the same messages always give the same
answer, so a turn that is resumed continues where it was.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from typing import TypeAlias

from pydantic import JsonValue

from choir_local.rehearsal.answer_content import (
    fold_events,
    sample_object,
    sample_value,
    summarize_session,
)
from choir_local.rehearsal.directives import Directives, read_directives
from choir_local.rehearsal.jobs import describe_job_results, job_call, report_call
from choir_local.rehearsal.score import (
    ErrorStep,
    MalformedStep,
    RuleCondition,
    Score,
    ScriptedCall,
    Step,
    Steps,
)
from choir_local.rehearsal.template import TemplateValues, fill_arguments, fill_text
from choir_local.rehearsal.turn import OfferedFunction, RehearsalTurn

REPORT_CHARS = 4000
QUOTE_CHARS = 200
SCHEMA_FOLLOWS = "fits this JSON Schema:"
CHEAP_TOOLS = ("choir_fs_read", "choir_memory_query")
_GREETINGS = re.compile(r"^\W*(hi|hello|hey|good (morning|day|evening)|help|/help|/start)\b", re.I)

Fault: TypeAlias = ErrorStep | MalformedStep


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """The result of one model call: faults first, then a text, tool calls or both."""

    text: str | None = None
    calls: tuple[ScriptedCall, ...] = ()
    faults: tuple[Fault, ...] = ()
    """Each is returned its number of times, in order, before the text and calls."""
    delay_ms: float = 0
    chunk_delay_ms: float = 0
    hang: bool = False
    """Whether to send no answer at all."""


def load_greeting() -> str:
    """Return the default reply when no score is set."""
    return resources.files(__package__ or "").joinpath("greeting.md").read_text("utf-8").strip()


def choose_answer(turn: RehearsalTurn, score: Score, greeting: str) -> ScriptedAnswer:
    """Return the next answer: from directives, then rules, the scene, `otherwise`, and the defaults."""
    match turn.lane:
        case "compaction":
            return _follow_rules(turn, score) or ScriptedAnswer(fold_events(turn.user_text))
        case "summary":
            return _follow_rules(turn, score) or ScriptedAnswer(summarize_session(turn.user_text))
        case "report":
            return _follow_rules(turn, score) or ScriptedAnswer(
                turn.user_text.strip()[:REPORT_CHARS]
            )
    directives = read_directives(turn.own_text)
    ordered = _follow_directives(turn, directives)
    answer = ordered or _follow_score(turn, score) or _default_answer(turn, greeting)
    faults = (directives.error, *answer.faults) if directives.error else answer.faults
    hang = answer.hang or (directives.hang and not answer.calls)
    return replace(
        answer,
        faults=faults,
        delay_ms=answer.delay_ms + directives.delay_ms,
        chunk_delay_ms=answer.chunk_delay_ms or directives.chunk_delay_ms,
        hang=hang,
    )


def wire_name(name: str, offered: tuple[str, ...]) -> str:
    """Return a tool's name on the wire, where dots may not be allowed."""
    return name if name in offered else name.replace(".", "_")


def _follow_directives(turn: RehearsalTurn, directives: Directives) -> ScriptedAnswer | None:
    if directives.error_text is not None:
        return ScriptedAnswer(directives.error_text)
    steps = [*_job_steps(turn, directives), *_tool_steps(turn, directives)]
    if turn.answers >= len(steps):
        return ScriptedAnswer(_final_text(turn, directives)) if steps else None
    calls = tuple(_on_wire(call, turn) for call in steps[turn.answers])
    missing = [call.name for call in calls if call.name not in turn.tool_names]
    if missing and not (directives.tools and directives.tool):
        return _no_tool(turn, missing[0])
    return ScriptedAnswer(calls=calls)


def _job_steps(turn: RehearsalTurn, directives: Directives) -> list[tuple[ScriptedCall, ...]]:
    """Return the edge lane's job calls in one step, or a job's reports one by one."""
    if turn.lane == "core":
        return [(report_call(kind, words),) for kind, words in directives.reports]
    return [tuple(job_call(order) for order in directives.jobs)] if directives.jobs else []


def _tool_steps(turn: RehearsalTurn, directives: Directives) -> list[tuple[ScriptedCall, ...]]:
    if directives.tools:
        call = directives.tool or _cheap_call(turn.tools) or ScriptedCall(name="call")
        return [(call,)] * directives.tools
    return [(directives.ordered_call,)] if directives.ordered_call else []


def _final_text(turn: RehearsalTurn, directives: Directives) -> str:
    if turn.lane == "core":
        return _final_job_answer(turn)
    if directives.jobs:
        return describe_job_results(directives.jobs, turn.results)
    if directives.tools:
        return f"Done: {directives.tools} tool calls. {_quote_last(turn)}".strip()
    return _report(turn)


def _on_wire(call: ScriptedCall, turn: RehearsalTurn) -> ScriptedCall:
    return ScriptedCall(name=wire_name(call.name, turn.tool_names), arguments=call.arguments)


def _no_tool(turn: RehearsalTurn, tool_name: str) -> ScriptedAnswer:
    offered = ", ".join(turn.tool_names) or "none"
    return ScriptedAnswer(f"The request offers no tool {tool_name}. Its tools are: {offered}.")


def _cheap_call(tools: tuple[OfferedFunction, ...]) -> ScriptedCall | None:
    """Return a harmless call: of a known read-only tool, else of the first tool offered."""
    cheap_tools = (tool for name in CHEAP_TOOLS for tool in tools if tool.name == name)
    tool = next(cheap_tools, tools[0] if tools else None)
    return (
        ScriptedCall(name=tool.name, arguments=sample_object(tool.parameters or {}))
        if tool
        else None
    )


def _follow_score(turn: RehearsalTurn, score: Score) -> ScriptedAnswer | None:
    ruled = _follow_rules(turn, score)
    if ruled is not None:
        return ruled
    if turn.lane == "core":
        return None
    if 0 < turn.users <= len(score.scenes):
        scene = Steps.from_list(score.scenes[turn.users - 1])
        return _play(scene, turn.answers, TemplateValues(turn))
    if score.otherwise is not None:
        return _play(Steps.from_list(score.otherwise), turn.answers, TemplateValues(turn))
    return None


def _follow_rules(turn: RehearsalTurn, score: Score) -> ScriptedAnswer | None:
    for rule in score.rules:
        groups = _match(rule.when, turn)
        if groups is not None:
            played = 0 if rule.when.reacts else turn.answers
            return _play(rule.steps, played, TemplateValues(turn, groups))
    return None


def _match(when: RuleCondition, turn: RehearsalTurn) -> Mapping[str, str] | None:
    """Return the regex's groups if the turn matches `when`, else None."""
    newest = turn.results[-1] if turn.results and turn.last_role == "tool" else None
    conversing = turn.lane not in ("report", "compaction", "summary")
    tests = (
        conversing if when.lane is None else when.lane == turn.lane,
        when.contains is None or when.contains.lower() in turn.user_text.lower(),
        when.system_contains is None or when.system_contains.lower() in turn.system_text.lower(),
        when.last_role in (None, turn.last_role),
        when.tool_result_of is None
        or (newest is not None and newest.name in (when.tool_result_of, _dotless(when))),
        when.result_contains is None
        or (newest is not None and when.result_contains in newest.text),
    )
    if not all(tests):
        return None
    match = re.search(when.regex, turn.user_text) if when.regex is not None else None
    if match is None:
        return None if when.regex is not None else {}
    numbered = {str(i): text or "" for i, text in enumerate(match.groups(), start=1)}
    return {"0": match.group(0), **numbered, **{k: v or "" for k, v in match.groupdict().items()}}


def _dotless(when: RuleCondition) -> str:
    return (when.tool_result_of or "").replace(".", "_")


def _play(steps: Steps, played: int, values: TemplateValues) -> ScriptedAnswer:
    """Return the answer after `played` ones; after the last, repeat its text or report results."""
    if played >= len(steps.answers):
        last = steps.answers[-1][-1]
        if last.say is not None and not last.calls:
            return ScriptedAnswer(fill_text(last.say, values))
        return ScriptedAnswer(_report(values.turn))
    group = steps.answers[played]
    return ScriptedAnswer(
        text=None if group[-1].say is None else fill_text(group[-1].say, values),
        calls=tuple(_fill_call(call, values) for call in group[-1].calls),
        faults=tuple(fault for step in group for fault in _faults(step)),
        delay_ms=sum(step.delay_ms for step in group),
        chunk_delay_ms=group[-1].chunk_delay_ms,
        hang=any(step.hang for step in group),
    )


def _faults(step: Step) -> tuple[Fault, ...]:
    return tuple(fault for fault in (step.error, step.malformed) if fault is not None)


def _fill_call(call: ScriptedCall, values: TemplateValues) -> ScriptedCall:
    name = wire_name(call.name, values.turn.tool_names)
    return ScriptedCall(name=name, arguments=fill_arguments(call.arguments, values))


def _default_answer(turn: RehearsalTurn, greeting: str) -> ScriptedAnswer:
    """Return a default answer: a report, the greeting, or a note that this is a script."""
    if turn.lane == "core":
        return ScriptedAnswer(_final_job_answer(turn))
    if turn.results:
        return ScriptedAnswer(_report(turn))
    if turn.users <= 1 or _GREETINGS.match(turn.user_text):
        return ScriptedAnswer(greeting)
    quoted = turn.user_text.strip()[:QUOTE_CHARS]
    return ScriptedAnswer(
        f'You wrote: "{quoted}". I am the rehearsal model: scripted, no real intelligence, so I '
        "can only repeat it. Say `help` to see what I can do, or configure a real model: set "
        "OPENROUTER_API_KEY, OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, or start a model server, "
        "and start Choir again."
    )


def _final_job_answer(turn: RehearsalTurn) -> str:
    """Return a core job's final answer: JSON for the schema in the briefing, if there is one."""
    _, separator, schema = turn.user_text.partition(SCHEMA_FOLLOWS)
    if separator:
        return json.dumps(sample_value(_first_json(schema)))
    done = f"{len(turn.results)} tool calls. {_quote_last(turn)}" if turn.results else ""
    return f"Done, as far as a script can do it. {done}".strip()


def _first_json(text: str) -> JsonValue:
    try:
        value: JsonValue = json.JSONDecoder().raw_decode(text.lstrip())[0]
    except ValueError:
        return None
    return value


def _report(turn: RehearsalTurn) -> str:
    """Return the results of the tools of this turn as text."""
    if not turn.results:
        return "No tool has answered in this turn."
    lines = (f"The tool {result.name} answered: {result.text}" for result in turn.results)
    return "\n".join(lines)[:REPORT_CHARS]


def _quote_last(turn: RehearsalTurn) -> str:
    return f"The last answered: {turn.results[-1].text[:QUOTE_CHARS]}" if turn.results else ""
