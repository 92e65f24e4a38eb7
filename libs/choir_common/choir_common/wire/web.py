"""Sign-in of the web page, its sessions, and the history of a conversation, in the operator API."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from choir_common.wire.attachments import Attachment
from choir_common.wire.messages import OutboundMessage
from choir_common.wire.model import AwareTime, WireModel

MAX_TOKEN = 1000
MAX_SENTENCES = 50
MAX_SENTENCE = 2_000


class MakeWebLink(WireModel):
    """Create a one-time link to the web page."""

    person: str | None = Field(default=None, min_length=1, max_length=64)
    """A person of config.json, who may then use the own conversations; None: the operator."""


class WebLinkView(WireModel):
    """A one-time link to the web page."""

    url: str
    person: str | None
    expires_at: AwareTime


class SignIn(WireModel):
    """Open a session with the token of a one-time link, or with the operator token."""

    link: str | None = Field(default=None, min_length=1, max_length=MAX_TOKEN)
    token: str | None = Field(default=None, min_length=1, max_length=MAX_TOKEN)
    path: str = Field(default="/", max_length=200)
    """The path of the endpoint as the browser sees it, for the cookie."""

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if (self.link is None) == (self.token is None):
            raise ValueError("give exactly one of link and token")
        return self


class WebSessionView(WireModel):
    """A browser that signed in."""

    web_session_id: str
    person: str | None
    user_agent: str
    created_at: AwareTime
    last_used_at: AwareTime
    expires_at: AwareTime


class OwnWebSession(WireModel):
    """The caller's own session."""

    person: str | None
    """None: the operator."""
    role: str
    """The role of the person, or `operator`."""
    key: str | None = None
    """Value of the header `X-Choir-Page-Key`, which each request with the cookie needs; in the answer to the
    sign-in only."""
    version: str


class TranslateSentences(WireModel):
    """Texts of Choir that a page shows, to be translated."""

    language: str = Field(min_length=1, max_length=35)
    """A tag such as `de`."""
    texts: tuple[Annotated[str, Field(max_length=MAX_SENTENCE)], ...] = Field(
        max_length=MAX_SENTENCES
    )


class TranslatedSentences(WireModel):
    """The translations, in the same order; what has none stays English."""

    texts: tuple[str, ...]


class PushState(WireModel):
    """Notifications of the caller's browser by Web Push."""

    public_key: str
    """Key of this Choir for `PushManager.subscribe`, in base64url."""
    subscribed: bool


class PushSubscriptionRequest(WireModel):
    """What `PushManager.subscribe` of a browser returned."""

    endpoint: str = Field(min_length=1, max_length=1000)
    """Address at the push service of the browser's vendor; https only."""
    p256dh: str = Field(min_length=1, max_length=100)
    """Public key of the browser, in base64url."""
    auth: str = Field(min_length=1, max_length=50)
    """Secret of the browser, 16 bytes in base64url."""


class PagePresence(WireModel):
    """Whether a page of the caller's browser is in view and used."""

    page: str = Field(min_length=1, max_length=64)
    """An id that the page chose for itself."""
    visible: bool


class UserMessageView(WireModel):
    """A user's message in the history of a conversation."""

    inbox_id: str
    key: str | None
    """The idempotency key of a message from the console."""
    text: str
    at: AwareTime
    attachments: tuple[Attachment, ...] = ()
    edits: str | None = None
    """The `key` of the first message that this one corrects, also by a correction of a correction."""
    answered: bool = False


class HistoryEntry(WireModel):
    """A message of a conversation; exactly one of the fields is set."""

    incoming: UserMessageView | None = None
    """From the user."""
    outgoing: OutboundMessage | None = None
    """To the user. A message that was edited has its newest text and buttons."""


class ConversationHistory(WireModel):
    """A page of a conversation, oldest first."""

    entries: tuple[HistoryEntry, ...]
    earlier: str | None
    """Pass it as `before` to get the page before this one; None on the first."""
    later: str | None = None
    """Pass it as `after` to get the page after this one; None on the newest."""
    last: int
    """The newest outbox id of the conversation, from which its event stream resumes."""
