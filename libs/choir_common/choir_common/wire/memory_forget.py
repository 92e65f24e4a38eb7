"""Erasure of a part of an agent's memory: preview a selection, then erase exactly what was shown."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from choir_common.wire.memory_operator import Store
from choir_common.wire.memory_search import DocumentName
from choir_common.wire.memory_sessions import SessionId
from choir_common.wire.model import AgentName, AwareTime, WireModel

ForgetScope = Literal["everything", "learned", "said"]
"""`everything`: the selected documents and all that was derived from them alone. `learned`: only what was
derived; the selected documents stay and nothing is learned from them again. `said`: only the messages of
sessions and the time summaries that repeat them; facts, rules, notes and tool failures stay."""
ResetKind = Literal["history", "all"]
"""`history`: the reference summary and everything learned stay. `all`: they are erased, too."""
SearchWords = Annotated[str, StringConstraints(min_length=1, max_length=400)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
MAX_SHOWN = 200
"""Documents listed in a preview; the counts and the digest cover all."""


class ForgetSelection(WireModel):
    """The documents to erase; a document must meet every condition that is set."""

    scope: ForgetScope = "everything"
    words: SearchWords | None = None
    """Documents that contain all of these words."""
    document: DocumentName | None = None
    """One document, by id or key; excludes the other conditions."""
    session_id: SessionId | None = None
    since: AwareTime | None = None
    until: AwareTime | None = None
    """End of the period, exclusive; None: until now."""
    expected_digest: Digest | None = None
    """None only returns a preview. Otherwise the digest of the preview to carry out."""


class ForgetMemory(WireModel):
    """Preview or erase a selection of an agent's memory."""

    agent_id: AgentName
    selection: ForgetSelection
    actor: Annotated[str, StringConstraints(min_length=1, max_length=200)] = "operator"
    """Who asked, for the audit log."""
    stopping: SessionId | None = None
    """A session that is stopped because of this; nothing more of it is stored."""


class ForgottenDocument(WireModel):
    """A document of the selection; `text` is its beginning."""

    document_id: str
    store: Store
    kind: str
    key: str | None
    session_id: str | None
    at: AwareTime
    text: str
    derived: bool
    """It is erased because of the others: it was derived from them alone."""


class ForgetResult(WireModel):
    """What a selection contains, or what was erased."""

    erased: bool
    digest: Digest
    """Identifies exactly these documents at their current versions."""
    documents: tuple[ForgottenDocument, ...]
    """Oldest first; at most 200."""
    counts: dict[str, int] = Field(default_factory=dict)
    """Number of documents of each kind."""
    total: int = 0
    supported: int = 0
    """Documents that lose a source but rest on others too, so they stay."""
    restored: int = 0
    """Documents that are valid again because the one that replaced them is erased."""
    sessions: tuple[str, ...] = ()
    """Sessions that contain selected messages."""


class ConversationMessage(WireModel):
    """A message in the log of the newest conversation; `text` is its beginning."""

    at: AwareTime
    sender: Literal["user", "agent"]
    text: str


class ForgetReport(WireModel):
    """A preview or the result for a person: in memory, and in the conversation."""

    agent_id: str
    memory: ForgetResult
    conversation: Literal["kept", "summary", "nothing", "rest"] = "kept"
    """What the conversation still shows the agent afterwards: all of it, only the reference summary, nothing,
    or the rest outside of the forgotten period."""
    messages: tuple[ConversationMessage, ...] = ()
    """The newest messages that the conversation loses, oldest first; memory may not have them yet."""
    message_count: int = 0
    logs: tuple[str, ...] = ()
    """Sessions whose logs and messages are erased; the hashes stay."""
    restarts: bool = False
    """The agent runs and is started again, so that its prompt contains no erased text."""
    summary_chars: int = 0
    """Length of the reference summary that a reset keeps."""
    earlier_until: AwareTime | None = None
    """A reset erases one session; those before it, until this time, stay. None: there are none."""
    unsearched: bool = False
    """The running conversation may contain the words; it is not searched for them."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to erase."""
        memory = self.memory
        content = memory.total or memory.supported or self.message_count or self.logs
        return not content and not self.restarts and self.conversation == "kept"


class ResetRequest(WireModel):
    """Reset an agent's conversation: start again with the reference summary, or with nothing."""

    kind: ResetKind = "history"
    expected_digest: Digest | None = None
    """None only returns a preview. Otherwise the digest of the preview to carry out."""
