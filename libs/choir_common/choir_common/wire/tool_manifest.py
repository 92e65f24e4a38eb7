"""The shape of an external tool's manifest, a JSON file beside its executable (spec 8.3, 8.8).

Read by the agent when it starts.
"""

from typing import Annotated, Literal

from pydantic import AliasChoices, Field, StringConstraints

from choir_common.wire.events import Exposure
from choir_common.wire.json import JsonObject
from choir_common.wire.model import Wire

LOCK_PATTERN = (
    r"^(workspace|browser_tab|choirtmp|file:\{path\}|(mem|repo|net|ext):[a-z0-9_-]{1,60})$"
)
TOOL_NAME_PATTERN = r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$"
Resource = Annotated[str, StringConstraints(pattern=LOCK_PATTERN)]
"""What can be locked (spec 9.2); `{path}` stands for the input's `path`."""


class LockEntry(Wire):
    """A lock each call needs."""

    resource: Resource
    mode: Literal["S", "X"]


class LlmPart(Wire):
    """What the model sees."""

    name: Annotated[
        str,
        StringConstraints(pattern=TOOL_NAME_PATTERN, max_length=60),
    ]
    """Namespaced, and not in `choir.`, which is Choir's own."""
    description: str = Field(min_length=1, max_length=4_000)
    parameters: JsonObject = Field(validation_alias=AliasChoices("parameters", "input_schema"))
    """JSON Schema of the input, an object."""


class RuntimePart(Wire):
    """What the runtime needs to know."""

    timeout_ms: int = Field(ge=100, le=600_000)
    side_effect: Literal["none", "read", "write", "external"]
    idempotent: bool
    """Whether a call may be run again, under its call_id, when a crash hid its outcome."""
    exec_path: str | None = None
    """Relative to the manifest, or below /choir; the file of the manifest's name unless given."""
    locks: tuple[LockEntry, ...] = ()
    network: bool = False
    """Whether it may open connections; the kernel holds it to a no."""
    secret_resources: tuple[
        Literal["git_identity", "notion", "email", "search", "voice_profile"], ...
    ] = ()
    """The resources whose secrets it is handed on standard input."""
    needs_approval: bool = False
    lanes: Literal["edge", "core", "both"] = "both"
    exposure: Exposure = "both"
    prompt_mask: bool = False
    version: str = "1.0"


class ToolManifestFile(Wire):
    """A whole manifest."""

    llm: LlmPart
    runtime: RuntimePart
