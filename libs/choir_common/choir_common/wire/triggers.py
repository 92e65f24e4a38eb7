"""Wire models of triggers: incoming webhooks (hooks), watched folders and mail, and their deliveries."""

from typing import Annotated, Literal

from pydantic import Field

from choir_common.wire.attachments import MAX_FILE_NAME, MAX_FILES, Attachment
from choir_common.wire.model import AwareTime, Name, WireModel
from choir_common.wire.trigger_config import MAX_SENDER, SignatureScheme, TriggerKind

TriggerType = Literal["hook", "folder", "mail"]
DeliveryState = Literal["waiting", "running", "done", "failed"]
"""`waiting`: for the agent; `running`: the agent has it; `done`: it was answered, or its core job is done."""


class HookAccepted(WireModel):
    """Response to a request of a hook: what arrived is stored."""

    delivery_id: str
    duplicate: bool
    """Whether the same request was stored before; nothing happens a second time."""


class HookView(WireModel):
    """A hook of config.json."""

    name: str
    path: str
    """The path of its requests at Choir's one endpoint."""
    agent_id: str
    dm: str
    kind: TriggerKind
    signature: SignatureScheme
    waiting: int
    running: int
    refused: int
    """Requests that were refused since Choir started."""
    last_refusal: str
    """Why the newest one was refused."""
    note: str
    """What is missing."""


class TriggerView(WireModel):
    """A watched folder of config.json, or mail that starts work."""

    name: str
    type: TriggerType
    folder: str
    """Empty for mail."""
    patterns: tuple[str, ...]
    """Of file names, or of senders."""
    gateway: str | None = None
    """The mailbox."""
    subject: str = ""
    agent_id: str
    dm: str
    kind: TriggerKind
    waiting: int
    running: int
    refused: int = 0
    """Mails that matched but were not taken since Choir started."""
    last_refusal: str = ""
    """Why the newest one was not taken."""
    note: str
    """Why it does not work now."""


class DeliveryView(WireModel):
    """What arrived through a trigger, and what became of it."""

    delivery_id: str
    seq: int
    type: TriggerType
    name: str
    agent_id: str
    dm: str
    kind: TriggerKind
    text: str
    """What the agent reads."""
    key: str
    """The sender's id, or a digest of the content."""
    size: int
    """Bytes of the body, the file or the mail."""
    state: DeliveryState
    detail: str
    received_at: AwareTime
    started_at: AwareTime | None
    ended_at: AwareTime | None


class HookTest(WireModel):
    """Request to try a hook without a signature."""

    body: str = Field(max_length=1_048_576)
    """The body that would arrive: JSON, as text."""
    send: bool = False
    """Whether the agent gets it; otherwise the text is only shown."""


class HookTestResult(WireModel):
    """What the agent reads of a body."""

    text: str
    missing: tuple[str, ...]
    """Places of the template for which the body has no value."""
    delivery_id: str | None


MAX_MAIL_TEXT = 10_000
"""Characters of a mail's text; templates show fewer."""
MAX_MAIL_FILES = 20
MAX_MAIL_DMS = 10
"""Conversations that get the files of one mail."""


class MailedFile(WireModel):
    """An attached file of a mail, as templates show it."""

    name: str = Field(max_length=MAX_FILE_NAME)
    size: int


class MailContent(WireModel):
    """What a mail says."""

    text: str = Field(max_length=MAX_MAIL_TEXT)
    files: tuple[MailedFile, ...] = Field(default=(), max_length=MAX_MAIL_FILES)
    digest: str = Field(max_length=100)
    """Equal for copies of a mail, whatever their ids."""
    attachments: dict[Name, Annotated[tuple[Attachment, ...], Field(max_length=MAX_FILES)]] = Field(
        default_factory=dict, max_length=MAX_MAIL_DMS
    )
    """The files that the gateway has stored, by the conversation (DM) for which it did."""


class MailOffer(WireModel):
    """Mail of nobody in `dms` that has arrived at a gateway."""

    gateway: Name
    mail_id: str = Field(max_length=100)
    """Equal for repetitions."""
    sender: str = Field(max_length=MAX_SENDER)
    sender_name: str = Field(default="", max_length=300)
    to: str = Field(default="", max_length=300)
    subject: str = Field(default="", max_length=300)
    sent_at: AwareTime
    size: int
    """Bytes of the whole mail."""
    doubt: str = Field(default="", max_length=300)
    """Why the sender is not proven; empty if the mail server has authenticated it."""
    content: MailContent | None = None
    """Only if control has asked for it."""


class MailDecision(WireModel):
    """What becomes of a mail that was offered."""

    outcome: Literal["not_taken", "send_content", "later", "taken"]
    """`taken`: it is stored for each trigger that matches; `later`: offer it again after a while."""
    dms: tuple[Name, ...] = ()
    """With `send_content`: the conversations for which the gateway stores the files of the mail."""
