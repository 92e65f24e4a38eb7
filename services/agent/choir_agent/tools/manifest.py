"""A tool's manifest in two views: what the model sees, and what the runtime needs."""

from dataclasses import dataclass
from typing import Literal

from choir_agent.provenance.data_flow import INTERNAL, DataFlow
from choir_common.eventlog.tool_results import OutputSource
from choir_common.wire.events import Exposure
from choir_common.wire.model import JsonObject

SideEffect = Literal["none", "read", "write", "external"]
"""`none` changes nothing; calls with any other value wait until their commitment event is durable."""
Lanes = Literal["edge", "core", "both"]
SecretResource = Literal["git_identity", "notion", "email", "search", "voice_profile"]
"""A resource that an agent can be bound to; its secret reaches only tools that name it in their
manifest."""


@dataclass(frozen=True, slots=True)
class LockTemplate:
    """A lock that a call needs; `{path}` in the resource is replaced by the call's canonical path."""

    resource: str
    mode: Literal["S", "X"]


@dataclass(frozen=True, slots=True)
class LlmView:
    """The only part that is sent to a model."""

    name: str
    description: str
    parameters: JsonObject


@dataclass(frozen=True, slots=True)
class RuntimeView:
    """The part that is never sent to a model."""

    timeout_ms: int
    side_effect: SideEffect
    idempotent: bool
    """Whether a call may be run again when a crash left its outcome unknown."""
    source: OutputSource
    """Origin and trust of its output."""
    flow: DataFlow = INTERNAL
    """What it brings into a lane, and what it can send out."""
    host: bool = False
    """Whether control runs it on the host's side."""
    locks: tuple[LockTemplate, ...] = ()
    needs_approval: bool = False
    """Whether a human decides on each call."""
    asks_with: str = ""
    """A boolean argument; a human decides on each call in which it is true."""
    lanes: Lanes = "both"
    """Which lanes may use it."""
    during_jobs: bool = False
    """Whether the edge lane may use it while a core job runs."""
    harness: str = ""
    """The harness for whose jobs alone Choir makes the call itself; no model is offered it."""
    in_skills: bool = False
    """Whether it is allowed in every state of a skill (skill transitions, a core job's reports)."""
    exposure: Exposure = "both"
    """The lanes whose prompts may contain its output."""
    prompt_mask: bool = False
    """Whether prompts contain only the output's summary and artifact reference."""
    secret_resources: tuple[SecretResource, ...] = ()
    max_output: int = 120_000
    """Bytes of JSON; the result of a longer output is truncated and an artifact has all of it."""
    network: bool = True
    """Whether an external tool may open connections."""
    hosts: tuple[str, ...] = ()
    """Patterns of the only hosts that an external tool may reach; empty: any."""
    version: str = "1.0"
    executable_hash: str = ""
    """SHA-256 of an external tool's program; part of the hash that identifies the set of tools."""


@dataclass(frozen=True, slots=True)
class ToolManifest:
    """A tool's definition."""

    llm: LlmView
    runtime: RuntimeView

    @property
    def name(self) -> str:
        """The canonical, namespaced name."""
        return self.llm.name
