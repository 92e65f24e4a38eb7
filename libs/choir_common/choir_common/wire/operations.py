"""Parts of the operator API: long operations, workspaces, and choices of a model."""

from typing import Literal

from pydantic import Field

from choir_common.wire.model import AwareTime, JsonObject, Name, WireModel

OperationStatus = Literal["running", "succeeded", "failed", "interrupted"]
Outcome = Literal["built", "redeployed", "skipped", "failed"]


class OperationStarted(WireModel):
    """The operation has started; `GET /v1/operations/{operation_id}` returns its progress."""

    operation_id: str


class OperationView(WireModel):
    """A long-running operation."""

    operation_id: str
    kind: str
    subject: str
    """The target: an agent's id, a workspace's name, or `all`."""
    status: OperationStatus
    """`interrupted`: choird ended in the middle; nothing is half done, start it again."""
    step: str = ""
    """The current or last step."""
    share: float | None = Field(default=None, ge=0, le=1)
    """Completed share, where known."""
    error: str | None = None
    error_code: str | None = None
    result: JsonObject | None = None
    began_at: AwareTime
    ended_at: AwareTime | None = None


class OperationEvent(WireModel):
    """A progress message of an operation; its SSE id is `seq`, its SSE event name `kind`."""

    seq: int
    kind: Literal["step", "line", "end"]
    text: str
    share: float | None = None


class ToolChanges(WireModel):
    """External tools of an agent's new image, compared with the image that it ran before; by name."""

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Manifest, program, or another file of the tool."""
    removed: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = (("new", self.new), ("changed", self.changed), ("removed", self.removed))
        return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in parts if names)


class AgentOutcome(WireModel):
    """The result for one agent: its image, and whether it runs with it."""

    agent_id: str
    outcome: Outcome
    image_version: str = ""
    global_repo_commit: str = ""
    agent_repo_commit: str = ""
    reason: str = ""
    """Why it failed or was skipped."""
    tools: ToolChanges | None = None
    """What the update changed of the tools; None if nothing changed, or if that is not known."""
    warnings: tuple[str, ...] = ()


class RolloutReport(WireModel):
    """The result for each agent, in the order of processing."""

    agents: tuple[AgentOutcome, ...]


class WorkspaceView(WireModel):
    """A configured workspace and the agent that has leased it."""

    name: str
    path: str
    agent_id: str | None
    session_id: str | None
    exists: bool
    files: int
    size: int
    """Bytes."""
    complete: bool
    """False if the count stopped at its time limit; there is more."""
    excess: str = ""
    """What it has and may have, if it is over a limit."""
    disabled: tuple[str, ...] = ()
    """Configuration and hooks of git that were disabled because they run commands, 20 at most."""
    traps: tuple[str, ...] = ()
    """Files that make a program run commands when somebody opens their directory, 20 at most."""
    searched: bool = True
    """False if the workspace was not searched completely for such files."""


class ResetWorkspace(WireModel):
    """Delete everything in a workspace; its agent is stopped first."""

    confirm: str
    """The workspace's name again, as confirmation."""
    restart: bool = False
    """Start the agent again that was stopped for the reset."""


class WorkspaceReset(WireModel):
    """The result of a reset."""

    name: str
    path: str
    removed: int
    """Number of deleted entries: files, links and directories."""
    left: tuple[str, ...]
    """The first ten entries that could not be deleted, and why."""
    stopped: str | None
    """The agent that was stopped for the reset."""
    restarted: bool


class ModelView(WireModel):
    """A configured language model, text-to-speech provider or transcription model."""

    name: str
    kind: Literal["llm", "tts", "transcription"]
    provider: str
    model: str
    endpoint: str
    context_window: int | None = None
    """Tokens, as a running agent uses it or else as configured; None: not known yet, or no language model."""


class VoiceView(WireModel):
    """A configured voice profile."""

    name: str
    tts: str
    voice_id: str
    output_format: str


class AgentModelAndVoice(WireModel):
    """An agent's current models and voice: those of its session, otherwise the defaults of a start."""

    agent_id: str
    session_id: str | None
    llm: str
    model: str | None
    """The provider's name of the model; None if `llm` is no longer configured."""
    core_llm: str | None
    voice_profile: str | None
    changed: tuple[str, ...] = ()
    """Fields that `model set` or `voice set` changed; a restart reverts them."""


class SetModel(WireModel):
    """Use this model from the next call on."""

    llm: Name


class SetVoice(WireModel):
    """Use this voice from the next speech output on."""

    voice_profile: Name
