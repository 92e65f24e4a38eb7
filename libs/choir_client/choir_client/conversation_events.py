"""Events of a conversation, and the answer to one message among them. Pure."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from choir_client.failures import AgentFailure, parse_json
from choir_common.errors import ChoirError, Conflict
from choir_common.http.response_parser import ServerSentEvent
from choir_common.i18n import _
from choir_common.reply_text import ReplyText
from choir_common.wire.activity import Card, Draft, DraftDelta, Idle, Typing
from choir_common.wire.events import NON_CLOSING_KINDS
from choir_common.wire.messages import InboundAccepted, OutboundMessage
from choir_common.wire.operator import AgentView, DmView

ConversationEvent = OutboundMessage | Card | Draft | Typing | Idle
"""A message, or a transient activity event: a progress card, the draft of a reply so far, or that an agent is
typing or idle."""
_ACTIVITY: TypeAdapter[Typing | Idle] = TypeAdapter(
    Annotated[Typing | Idle, Field(discriminator="kind")]
)
SOURCE = _("The stream of the conversation")


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message that is stored."""

    dm: str
    inbox_id: str
    """Empty for a command, which stores nothing."""
    after: int
    """The newest outbox id before it; its answer comes later."""
    accepted: InboundAccepted

    @property
    def note(self) -> str:
        """What Choir said at once: the result of a command, or why no answer is expected soon."""
        return self.accepted.note or ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a message."""

    text: str
    message: OutboundMessage | None
    """None for a command."""

    def __str__(self) -> str:
        return self.text


class EventReader:
    """Parses the events of one stream; drafts arrive as changes."""

    def __init__(self) -> None:
        self._draft = ""

    def read(self, event: ServerSentEvent) -> ConversationEvent | None:
        """Return the event; None for a kind that this version does not know."""
        match event.event:
            case "message" | "edit":
                return parse_json(event.data, OutboundMessage, SOURCE)
            case "card":
                return parse_json(event.data, Card, SOURCE)
            case "delta":
                delta = parse_json(event.data, DraftDelta, SOURCE)
                self._draft = self._draft[: delta.offset] + delta.text
                return Draft(text=self._draft)
            case "activity":
                try:
                    return _ACTIVITY.validate_json(event.data)
                except ValidationError as error:
                    raise ChoirError(
                        _("{source} has an unknown activity: {error}.").format(
                            source=SOURCE, error=error
                        )
                    ) from error
            case _:
                return None


class AnswerReader:
    """Reads the events of a conversation until the answer to one message."""

    def __init__(self, sent: SentMessage) -> None:
        self._sent = sent
        self._text = ReplyText()
        self.answer: Answer | None = None
        """None until it is complete."""
        if sent.accepted.command is not None:
            self.answer = Answer(sent.note or "Done.", None)

    @property
    def is_complete(self) -> bool:
        """Whether the answer is there."""
        return self.answer is not None

    def read(self, event: ConversationEvent | None) -> str:
        """Return what the event adds to the text; raises AgentFailure if the answer is an error."""
        match event:
            case Draft(text=draft):
                return self._text.grow(draft)
            case OutboundMessage(edits=None) if event.kind in NON_CLOSING_KINDS:
                return self._text.add(event.text)
            case OutboundMessage(edits=None) if event.answers == self._sent.inbox_id:
                if event.kind == "error":
                    raise AgentFailure(event.text)
                self.answer = Answer(event.text, event)
                return self._text.finish(event.text)
            case _:
                return ""


def choose_conversation(agent: AgentView, dms: list[DmView]) -> str:
    """Return the conversation in which programs talk with a running agent.

    Raises Conflict if the agent does not run, or serves no conversation of a console gateway.
    """
    if agent.bindings is None:
        raise Conflict(
            _(
                "Agent {agent_id} is {state}, so nothing answers. Start it with `choirctl agent "
                "start {agent_id}`."
            ).format(agent_id=agent.agent_id, state=agent.state)
        )
    consoles = {it.name for it in dms if it.channel.uses_choir_api}
    served = (agent.bindings.dm, *agent.conversations)
    for name in served:
        if name in consoles:
            return name
    raise Conflict(
        _(
            "Agent {agent_id} serves {names}, and none of these is a conversation of a "
            "gateway of type console. Add one to config.json: docs/conversations.md."
        ).format(agent_id=agent.agent_id, names=", ".join(dict.fromkeys(served)))
    )
