"""What a restarted gateway continues from, in one file per gateway; it contains no text of a message."""

import asyncio
import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog
from pydantic import Field, ValidationError

from choir_common.errors import Unavailable
from choir_common.i18n import _
from choir_common.wire.attachments import Button
from choir_common.wire.model import AwareTime, WireModel

log = structlog.get_logger("choir.gateway.signal")

MAX_HANDLED = 500
MAX_REVISIONS = 500
MAX_USERS = 500
RECENT = timedelta(days=7)


class SignalQuestion(WireModel):
    """A message with choices that a user may take by its numbers or by a reaction."""

    key: str
    """The part of the outbox message that asks."""
    user_id: str
    message_id: str | None = None
    """None until it was sent."""
    first: int
    """The number of the first choice."""
    buttons: tuple[Button, ...]
    is_latest: bool = True
    """No message of an agent came after it."""


class SignalState(WireModel):
    """The content of the file."""

    handled: tuple[str, ...] = ()
    """The digests of the ids of the newest messages that control has stored; an id names the author."""
    revisions: dict[str, str] = Field(default_factory=dict)
    """The first version of each edited message, by the ids of the later ones."""
    questions: tuple[SignalQuestion, ...] = ()
    next_number: int = 1
    wrote_at: dict[str, AwareTime] = Field(default_factory=dict)
    """When each user wrote last."""
    connected_at: AwareTime | None = None
    """When the connection was open last, within a minute."""


class SignalStateStore:
    """The state of one gateway."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = asyncio.Lock()
        self.state = _load(path)

    async def note_handled(self, update_id: str, user_id: str) -> None:
        """Record that a message of a user needs nothing more; `user_id` is empty for a group."""
        changes: dict[str, object] = {
            "handled": (*self.state.handled, _digest(update_id))[-MAX_HANDLED:],
        }
        if user_id:
            others = {it: at for it, at in self.state.wrote_at.items() if it != user_id}
            users = {**others, user_id: datetime.now(UTC)}
            changes["wrote_at"] = dict(list(users.items())[-MAX_USERS:])
        await self._update(**changes)

    def is_handled(self, update_id: str) -> bool:
        """Return whether a message needs nothing more, if it is one of the newest."""
        return _digest(update_id) in self.state.handled

    async def erase_user(self, user_id: str) -> int:
        """Erase a user's open questions and the time of their last message; return the number of records.

        Raises Unavailable if the file cannot be written.
        """
        questions = tuple(it for it in self.state.questions if it.user_id != user_id)
        wrote_at = {it: at for it, at in self.state.wrote_at.items() if it != user_id}
        count = (
            len(self.state.questions) - len(questions) + len(self.state.wrote_at) - len(wrote_at)
        )
        try:
            await self._store(questions=questions, wrote_at=wrote_at)
        except OSError as error:
            reason = error.strerror
            raise Unavailable(
                _("Signal's state could not be written: {reason}.").format(reason=reason)
            ) from error
        return count

    def recent_addresses(self, now: datetime) -> list[str]:
        """Return the users who wrote in the last days."""
        return [it for it, at in self.state.wrote_at.items() if now - at < RECENT]

    async def note_revision(self, revision: str, first: str) -> None:
        """Record that a message is a later version of another one."""
        if revision != first:
            revisions = {**self.state.revisions, revision: first}
            await self._update(revisions=dict(list(revisions.items())[-MAX_REVISIONS:]))

    async def note_connection(self, at: AwareTime) -> None:
        """Record that the connection is open."""
        await self._update(connected_at=at)

    async def replace_questions(
        self, questions: tuple[SignalQuestion, ...], next_number: int
    ) -> None:
        """Replace the questions and the number of the next choice."""
        if (questions, next_number) != (self.state.questions, self.state.next_number):
            await self._update(questions=questions, next_number=next_number)

    def first_version(self, message_id: str) -> str:
        """Return the id of the first version of a message."""
        return self.state.revisions.get(message_id, message_id)

    def latest_version(self, message_id: str) -> str:
        """Return the id of the newest version of a message that is known."""
        later = [new for new, first in self.state.revisions.items() if first == message_id]
        return later[-1] if later else message_id

    def count_revisions(self, message_id: str) -> int:
        """Return how often a message was edited, as far as that is known."""
        return sum(first == message_id for first in self.state.revisions.values())

    async def _update(self, **changes: object) -> None:
        try:
            await self._store(**changes)
        except OSError as error:
            # Control recognises most repetitions, so go on without the file.
            log.error("state not stored", path=str(self._path), error=str(error))

    async def _store(self, **changes: object) -> None:
        self.state = self.state.model_copy(update=changes)
        async with self._lock:
            await asyncio.to_thread(self._write, self.state.model_dump_json())

    def _write(self, content: str) -> None:
        self._path.parent.mkdir(0o700, parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        part.touch(0o600)
        part.write_text(content)
        part.replace(self._path)


def _digest(update_id: str) -> str:
    return hashlib.sha256(update_id.encode()).hexdigest()[:32]


def _load(path: Path) -> SignalState:
    try:
        return SignalState.model_validate_json(path.read_text())
    except FileNotFoundError:
        return SignalState()
    except (OSError, ValidationError, ValueError) as error:
        log.error("state lost; open questions have no numbers", error=type(error).__name__)
        return SignalState()
