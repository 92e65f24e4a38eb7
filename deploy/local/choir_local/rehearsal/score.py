"""The score: the scripted answers of the rehearsal model, as one JSON file.

A request is answered by the first of: directives in the user's message (`directives`), the first of `rules`
that matches, the scene of this user message (`scenes[0]` for the first user message of the conversation, and
so on), `otherwise`, the greeting.

This applies to requests of the edge lane and of core jobs. For a core job, the briefing and the injected text
count as the user's message, and all its steps are one turn. Reports, compactions and session summaries get a
suitable default answer, unless a rule has `{"lane": "report"}` and so on.

A rule or scene is a list of steps. Each assistant message after the last user message has used one, so a turn
that is resumed after a crash continues where it was. Texts and call arguments may contain `{user}`,
`{result}` (the newest tool result), `{result.a.b}` (a value in its JSON), `{results.0.a}` (the first result
of this turn) and `{match.1}` or `{match.name}` (groups of the rule's `regex`).

    {"rules": [{"when": {"contains": "summarise"},
                "then": [{"call": {"name": "choir.fs.read", "arguments": {"path": "notes.txt"}}},
                         {"delay_ms": 50, "say": "It says: {result.text}"}]}],
     "scenes": [[{"error": {"status": 429, "retry_after_s": 0.1}}, {"say": "Good day."}]],
     "otherwise": [{"say": "I have no line for that."}]}
"""

import re
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_common.wire.validation_messages import error_messages
from choir_local.rehearsal.turn import Lane

Malformation = Literal["body", "arguments", "empty", "html", "cut"]
"""body: half a JSON document; arguments: a tool call with invalid JSON as arguments; empty: no choices;

html: a proxy's error page with status 200; cut: the connection closes in the middle of the body.
"""


class _ScoreModel(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class ScriptedCall(_ScoreModel):
    """One tool call; `choir.fs.read` is sent as `choir_fs_read`."""

    name: str = Field(min_length=1, max_length=64)
    arguments: JsonObject = Field(default_factory=dict)


class ErrorStep(_ScoreModel):
    """An HTTP error in place of the answer."""

    status: int = Field(default=500, ge=400, le=599)
    retry_after_s: float | None = Field(default=None, ge=0)
    body: JsonObject | None = None
    """Body of the error response; None sends an error in OpenAI's format."""
    times: int = Field(default=1, ge=0)
    """How often the same request gets the error before the answer; 0 means always."""


class MalformedStep(_ScoreModel):
    """An answer that violates the protocol."""

    kind: Malformation
    times: int = Field(default=1, ge=0)
    """As in `error`."""


class Step(_ScoreModel):
    """One answer of the model: it waits, fails, and then sends text or calls, in this order."""

    delay_ms: float = Field(default=0, ge=0, le=600_000)
    error: ErrorStep | None = None
    malformed: MalformedStep | None = None
    hang: bool = False
    """Never answer, so that the client must time out."""
    say: str | None = None
    call: ScriptedCall | tuple[ScriptedCall, ...] | None = None
    chunk_delay_ms: float = Field(default=0, ge=0, le=60_000)
    """Pause between the parts of a streamed answer, in milliseconds."""

    @field_validator("malformed", mode="before")
    @classmethod
    def _name_alone(cls, value: object) -> object:
        return {"kind": value} if isinstance(value, str) else value

    @field_validator("call", mode="before")
    @classmethod
    def _list_of_calls(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @property
    def calls(self) -> tuple[ScriptedCall, ...]:
        """Return the calls of this step, possibly none."""
        if self.call is None:
            return ()
        return self.call if isinstance(self.call, tuple) else (self.call,)

    @property
    def answers(self) -> bool:
        """Return whether this step ends one model call; otherwise it only prepares the next step."""
        return self.say is not None or self.call is not None

    @property
    def always_fails(self) -> bool:
        """Return whether no later step can be reached."""
        faults = (self.error, self.malformed)
        return self.hang or any(fault is not None and fault.times == 0 for fault in faults)


class Steps(_ScoreModel):
    """The answers of one turn: each consists of the steps of one model call, and the last step answers."""

    answers: tuple[tuple[Step, ...], ...]

    @classmethod
    def from_list(cls, steps: tuple[Step, ...]) -> Self:
        """Group `steps` by model call.

        Raises ValueError for steps that can never be reached, or a list that does not end.
        """
        groups: list[tuple[Step, ...]] = []
        waiting: list[Step] = []
        for number, step in enumerate(steps):
            waiting.append(step)
            if not step.answers and not step.always_fails:
                continue
            if (step.always_fails or not step.calls) and number + 1 < len(steps):
                raise ValueError(f"step {number} ends the turn, so later steps are never reached")
            groups.append(tuple(waiting))
            waiting = []
        if waiting or not groups:
            raise ValueError(
                "the last step must say or call something, fail always (times 0) or hang"
            )
        return cls(answers=tuple(groups))


class RuleCondition(_ScoreModel):
    """Conditions of a rule; all that are set must match, and an empty one always matches."""

    lane: Lane | None = None
    """Source of the request (see `lane`); by default the edge lane or a core job."""
    contains: str | None = None
    """Text in the last user message, ignoring case."""
    regex: str | None = None
    """Regular expression to find in the last user message (Python syntax)."""
    system_contains: str | None = None
    """Text in a system message, ignoring case."""
    last_role: Literal["user", "tool"] | None = None
    tool_result_of: str | None = None
    """The newest message is a result of this tool."""
    result_contains: str | None = None
    """Text in the newest tool result."""

    @field_validator("regex")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from error
        return value

    @property
    def reacts(self) -> bool:
        """Return whether the rule waits for a tool result, and so answers once in each case."""
        reacting = (self.tool_result_of, self.result_contains)
        return self.last_role == "tool" or any(part is not None for part in reacting)


class Rule(_ScoreModel):
    """Steps to play under a condition."""

    when: RuleCondition
    then: tuple[Step, ...] = Field(strict=False)

    @model_validator(mode="after")
    def _plays(self) -> Self:
        steps = Steps.from_list(self.then)
        if self.when.reacts and len(steps.answers) > 1:
            raise ValueError(
                "a rule that waits for a tool result answers once: give each result its own rule"
            )
        return self

    @property
    def steps(self) -> Steps:
        """Return the steps grouped by model call."""
        return Steps.from_list(self.then)


class Score(_ScoreModel):
    """A whole score."""

    about: str = ""
    rules: tuple[Rule, ...] = Field(default=(), strict=False)
    scenes: tuple[tuple[Step, ...], ...] = Field(default=(), strict=False)
    otherwise: tuple[Step, ...] | None = Field(default=None, strict=False)

    @field_validator("scenes")
    @classmethod
    def _scenes_play(cls, value: tuple[tuple[Step, ...], ...]) -> tuple[tuple[Step, ...], ...]:
        for number, scene in enumerate(value):
            try:
                Steps.from_list(scene)
            except ValueError as error:
                raise ValueError(f"scene {number}: {error}") from error
        return value

    @field_validator("otherwise")
    @classmethod
    def _otherwise_plays(cls, value: tuple[Step, ...] | None) -> tuple[Step, ...] | None:
        if value is not None:
            Steps.from_list(value)
        return value


def parse_score(text: str | bytes, source: str = "the score") -> Score:
    """Parse a score.

    Raises StartupError naming `source` and each invalid field.
    """
    try:
        return Score.model_validate_json(text)
    except ValidationError as error:
        faults = "; ".join(error_messages(error, "file"))
        raise StartupError(
            _("The rehearsal score {source} is invalid. {faults}.").format(
                source=source, faults=faults
            )
        ) from error


def load_score(path: Path) -> Score:
    """Read a score from `path`.

    Raises StartupError if it cannot be read or is invalid.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise StartupError(
            _(
                "The rehearsal score {path} cannot be read: {error}. Correct --score (CHOIR_SCORE), or "
                "leave it out."
            ).format(path=path, error=error.strerror)
        ) from error
    return parse_score(text, str(path))
