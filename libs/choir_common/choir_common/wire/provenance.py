"""Where the content of a conversation comes from: origins, and what a tool's result brings in.

Part of events and of a session's state. See docs/design/provenance.md.
"""

from typing import Annotated

from pydantic import Field, StringConstraints

from choir_common.wire.model import WireModel

MAX_ORIGIN_CHARS = 160
OriginText = Annotated[str, StringConstraints(max_length=MAX_ORIGIN_CHARS)]


class Origin(WireModel):
    """A source of content, as a person reads it: `web page https://…`."""

    what: OriginText
    trust: int = 10
    """From 0 (none) to 100 (full), on the scale of memory."""


class ResultProvenance(WireModel):
    """What a tool's result brings into its lane, and where the call may have written."""

    outside: tuple[Origin, ...] = ()
    """Sources of text that the owner and the agent did not write."""
    private: tuple[Origin, ...] = ()
    """Sources of private data."""
    wrote: str = ""
    """Path in the workspace that now holds what the lane holds; `*` if that may be any path."""


class LaneTaint(WireModel):
    """What a lane holds: in its window, or in the summary that replaced the older events."""

    outside: tuple[Origin, ...] = ()
    """The newest sources of untrusted text."""
    private: tuple[Origin, ...] = ()
    """The newest sources of private data."""
    trust: int = 100
    """The least trust of all sources of untrusted text; 100 without any."""
    choices: int = 0
    """Links chosen while the lane held both, since a person last agreed to a call."""
    gestures: int = 0
    """The same of actions that a page can notice, such as scrolling."""

    @property
    def holds_both(self) -> bool:
        """Whether the lane holds untrusted text and private data."""
        return bool(self.outside and self.private)


class WorkspaceTaint(WireModel):
    """Where the workspace's files come from."""

    outside: tuple[Origin, ...] = ()
    """Sources of untrusted text that any file may hold."""
    files: dict[str, LaneTaint] = Field(default_factory=dict)
    """What single files hold, by path."""


class SessionTaint(WireModel):
    """Origins of everything in a session: by lane, and in the workspace."""

    lanes: dict[str, LaneTaint] = Field(default_factory=dict)
    workspace: WorkspaceTaint = WorkspaceTaint()

    def lane(self, name: str) -> LaneTaint:
        """Return what a lane holds."""
        return self.lanes.get(name, LaneTaint())
