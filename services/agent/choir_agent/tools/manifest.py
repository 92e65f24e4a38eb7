"""A tool in its two views (spec 8.3): what the model sees, and what the runtime needs to know."""

from dataclasses import dataclass
from typing import Literal

from choir_agent.credentials.scope import SecretResource
from choir_common.wire.events import Exposure
from choir_common.wire.json import JsonObject

SideEffect = Literal["none", "read", "write", "external"]
"""`none` changes nothing anywhere; anything else waits until its commitment is durable."""
Lanes = Literal["edge", "core", "both"]


@dataclass(frozen=True, slots=True)
class LockTemplate:
    """A lock a call needs; `{path}` in the resource stands for the canonical path of its input."""

    resource: str
    mode: Literal["S", "X"]


@dataclass(frozen=True, slots=True)
class LlmView:
    """The only part that is ever sent to a model."""

    name: str
    description: str
    parameters: JsonObject


@dataclass(frozen=True, slots=True)
class RuntimeView:
    """What the model never sees."""

    timeout_ms: int
    side_effect: SideEffect
    idempotent: bool
    """Whether a call may be run again when a crash hid its outcome."""
    host: bool = False
    """Whether control runs it, on the host's side."""
    locks: tuple[LockTemplate, ...] = ()
    needs_approval: bool = False
    """Whether a human decides on each call (spec 8.10)."""
    lanes: Lanes = "both"
    """Which lanes may use it."""
    during_jobs: bool = False
    """Whether the edge lane may use it while a core job runs (spec 7.2)."""
    in_skills: bool = False
    """Whether it may be used in every state of a skill: what moves the skill, and a core job's own voice."""
    exposure: Exposure = "both"
    """The lanes whose prompts may show its output (spec 8.5)."""
    prompt_mask: bool = False
    """Whether prompts show only the output's summary and artifact reference."""
    secret_resources: tuple[SecretResource, ...] = ()
    max_output: int = 120_000
    """Bytes of JSON; what is longer stands whole in an artifact, and its beginning in the result."""
    network: bool = True
    """Whether an external tool may open connections."""
    version: str = "1.0"
    executable_hash: str = ""
    """SHA-256 of an external tool's program: another program is another set of tools."""


@dataclass(frozen=True, slots=True)
class ToolManifest:
    """A tool's definition."""

    llm: LlmView
    runtime: RuntimeView

    @property
    def name(self) -> str:
        """The canonical, namespaced name."""
        return self.llm.name
