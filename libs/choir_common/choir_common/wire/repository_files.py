"""File formats in a repository of an agent: manifests of external tools, and skills.

A manifest is a JSON file next to the tool's executable, read by the agent at startup. Control reads a skill
before it is staged or built, and validates what is possible without the tools. The agent's own parser is
stricter: it knows which tools exist, and walks every state. See docs/design/tools.md.
"""

from typing import Annotated, Literal, Self

from pydantic import AliasChoices, Field, StringConstraints, model_validator

from choir_common.wire.events import Exposure
from choir_common.wire.model import JsonObject, WireModel

LOCK_PATTERN = (
    r"^(workspace|browser_tab|choirtmp|file:\{path\}|(mem|repo|net|ext):[a-z0-9_-]{1,60})$"
)
TOOL_NAME_PATTERN = r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$"
SKILL_NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,63}$"
Resource = Annotated[str, StringConstraints(pattern=LOCK_PATTERN)]
"""A lockable resource; `{path}` is replaced by the input's `path`."""
SkillName = Annotated[str, StringConstraints(pattern=SKILL_NAME_PATTERN)]


class LockTemplate(WireModel):
    """A lock that each call needs."""

    resource: Resource
    mode: Literal["S", "X"]


class LlmSection(WireModel):
    """The part that the model sees."""

    name: Annotated[
        str,
        StringConstraints(pattern=TOOL_NAME_PATTERN, max_length=60),
    ]
    """Has a namespace, which is not `choir.`: that is reserved for built-in tools."""
    description: str = Field(min_length=1, max_length=4_000)
    parameters: JsonObject = Field(validation_alias=AliasChoices("parameters", "input_schema"))
    """JSON Schema of the input, an object."""


MAX_TOOL_HOSTS = 20
HOST_PATTERN_PATTERN = r"^[a-z0-9.*?-]{1,100}$"
HostPattern = Annotated[str, StringConstraints(pattern=HOST_PATTERN_PATTERN)]


class RuntimeSection(WireModel):
    """The part that the runtime uses."""

    timeout_ms: int = Field(ge=100, le=600_000)
    side_effect: Literal["none", "read", "write", "external"]
    idempotent: bool
    """Whether a call may be repeated under its call_id if a crash hid its outcome."""
    origin: Literal["tool", "web"] = "tool"
    """`web`: outsiders wrote its output, so what the agent notes afterwards gets the trust of a page."""
    outside: bool | None = None
    """Whether it returns text that outsiders wrote; default: as `network`, and true for origin `web`."""
    private: bool = True
    """Whether it returns or sends private data that is not among its arguments."""
    sends: bool | None = None
    """Whether a call can send data out; default: as `network`."""
    exec_path: str | None = None
    """Relative to the manifest, or below /choir; default: the file with the manifest's name."""
    locks: tuple[LockTemplate, ...] = ()
    network: bool = False
    """Whether it may open connections; if false, the kernel enforces it."""
    hosts: tuple[HostPattern, ...] = Field(default=(), max_length=MAX_TOOL_HOSTS)
    """Patterns of the only hosts that it may reach; empty: any. These hosts are never new."""
    secret_resources: tuple[
        Literal["git_identity", "notion", "email", "search", "voice_profile"], ...
    ] = ()
    """The resources whose secrets it receives on standard input."""
    needs_approval: bool = False
    lanes: Literal["edge", "core", "both"] = "both"
    exposure: Exposure = "both"
    prompt_mask: bool = False
    version: str = "1.0"


class ToolManifestFile(WireModel):
    """A complete manifest."""

    llm: LlmSection
    runtime: RuntimeSection


class SkillTransition(WireModel):
    """A transition to the state `to` on the event `on`."""

    on: str = Field(min_length=1)
    to: str = Field(min_length=1)


class SkillState(WireModel):
    """One state of a skill."""

    objective: str | None = None
    """Required except in terminal states."""
    terminal: bool = False
    allowed_tools: tuple[str, ...] = ()
    transitions: tuple[SkillTransition, ...] = ()


class SkillFile(WireModel):
    """A complete skill."""

    name: SkillName
    description: str
    initial_state: str
    states: dict[str, SkillState] = Field(min_length=1)
    max_steps: int = Field(ge=1)
    interruptible: bool = True
    input_schema: JsonObject | None = None
    output_schema: JsonObject | None = None

    @model_validator(mode="after")
    def _leads_somewhere(self) -> Self:
        if self.initial_state not in self.states:
            raise ValueError(f"initial_state: there is no state {self.initial_state!r}")
        for name, state in self.states.items():
            for transition in state.transitions:
                if transition.to not in self.states:
                    raise ValueError(
                        f"states.{name}: a transition leads to {transition.to!r}, which is not a state"
                    )
        return self
