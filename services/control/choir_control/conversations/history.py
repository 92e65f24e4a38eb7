"""History of a conversation: the messages of both sides in the order in which they were stored."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import TypeAdapter

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.postgres.pool import Database, Record
from choir_common.wire.attachments import Attachment
from choir_common.wire.web import ConversationHistory, HistoryEntry, UserMessageView
from choir_control.conversations.outbox.store import OutboxStore

BAD_CURSOR = _("before and after: must be `earlier` and `later` of another page.")
CURSOR = re.compile(r"(\d{1,18})\.([01])\.(\d{1,18})")
_ATTACHMENTS: TypeAdapter[tuple[Attachment, ...]] = TypeAdapter(tuple[Attachment, ...])

# Both parts use an index by conversation; the newest `$5` of each are enough for the newest `$5` of both.
_PAGE_QUERY = """
WITH incoming AS (
    SELECT received_at AS at, 0 AS side, seq AS number FROM choir_control.inbox
    WHERE dm = $1 AND (received_at, 0, seq) {is_past} ($2, $3, $4) AND ($6 = '' OR text ILIKE $6)
      AND (text <> '' OR attachments IS NOT NULL)  -- not erased
      AND update_id !~ '^((trigger|schedule):|job/)'  -- not said by the user
    ORDER BY received_at {order}, seq {order} LIMIT $5
), outgoing AS (
    SELECT at, 1 AS side, outbox_id AS number FROM choir_control.outbox
    WHERE dm = $1 AND edits IS NULL AND (at, 1, outbox_id) {is_past} ($2, $3, $4)
      AND ($6 = '' OR text ILIKE $6)
    ORDER BY at {order}, outbox_id {order} LIMIT $5
)
SELECT at, side, number FROM (SELECT * FROM incoming UNION ALL SELECT * FROM outgoing) AS both_sides
ORDER BY at {order}, side {order}, number {order} LIMIT $5
"""
_EARLIER = _PAGE_QUERY.format(is_past="<", order="DESC")
_LATER = _PAGE_QUERY.format(is_past=">", order="ASC")
_INCOMING = """
SELECT seq, dm, inbox_id, update_id, message_id, text, received_at, attachments, edits,
       answered_rev IS NOT NULL OR closed_at IS NOT NULL AS answered
FROM choir_control.inbox WHERE seq = ANY($1)
"""


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a message in a conversation."""

    at: datetime
    side: int
    """0: from the user; 1: to the user."""
    number: int

    def cursor(self) -> str:
        """Return it as text, for `before`."""
        micros = int(self.at.timestamp()) * 1_000_000 + self.at.microsecond
        return f"{micros}.{self.side}.{self.number}"


NEWEST = _Place(datetime.fromisoformat("9999-12-31T00:00:00+00:00"), 2, 0)


@dataclass(frozen=True, slots=True)
class PageStart:
    """Where a page begins: at most one of the fields is set; without one it ends with the newest message."""

    before: str | None = None
    after: str | None = None
    at: datetime | None = None

    @property
    def is_forward(self) -> bool:
        """Return whether the page continues towards newer messages."""
        return self.after is not None or self.at is not None

    def place(self) -> _Place:
        """Return the place that is not part of the page; raises InvalidRequest."""
        if sum(value is not None for value in (self.before, self.after, self.at)) > 1:
            raise InvalidRequest(_("Give at most one of before, after and at."))
        if self.at is not None:
            try:
                return _Place(self.at.astimezone(UTC), -1, 0)
            except OverflowError as error:
                raise InvalidRequest(_("at: is outside the calendar.")) from error
        cursor = self.after if self.before is None else self.before
        return NEWEST if cursor is None else _parse_cursor(cursor)


class ConversationHistoryReader:
    """Reader of both sides of a conversation."""

    def __init__(self, database: Database, outbox: OutboxStore) -> None:
        self._database = database
        self._outbox = outbox

    async def read(
        self, dm: str, *, start: PageStart, limit: int, query: str = ""
    ) -> ConversationHistory:
        """Return the messages of one page, with `query` those that contain it.

        Raises InvalidRequest for an invalid cursor.
        """
        last = await self._outbox.read_newest_id(dm)
        place, is_forward = start.place(), start.is_forward
        places = await self._read_places(dm, place, limit + 1, query, is_forward=is_forward)
        has_more, places = len(places) > limit, places[:limit]
        if is_forward:
            before = await self._read_places(dm, place, 1, query, is_forward=False)
            has_earlier, has_later = bool(before) or start.after is not None, has_more
        else:
            places.reverse()
            has_earlier, has_later = has_more, start.before is not None
        return ConversationHistory(
            entries=await self._read_entries(places),
            earlier=places[0].cursor() if places and has_earlier else None,
            later=places[-1].cursor() if places and has_later else None,
            last=last,
        )

    async def _read_places(
        self, dm: str, place: _Place, limit: int, query: str, *, is_forward: bool
    ) -> list[_Place]:
        """Return the next places in a direction, the nearest first."""
        rows = await self._database.fetch(
            _LATER if is_forward else _EARLIER,
            dm,
            *(place.at, place.side, place.number),
            limit,
            _pattern_of(query),
        )
        return [_Place(row["at"], row["side"], row["number"]) for row in rows]

    async def _read_entries(self, places: Sequence[_Place]) -> tuple[HistoryEntry, ...]:
        incoming = {
            row["seq"]: row
            for row in await self._database.fetch(
                _INCOMING, [place.number for place in places if place.side == 0]
            )
        }
        outgoing = await self._outbox.read_newest_versions(
            [place.number for place in places if place.side == 1]
        )
        return tuple(
            HistoryEntry(outgoing=outgoing[place.number])
            if place.side == 1
            else HistoryEntry(incoming=_user_message(incoming[place.number]))
            for place in places
            # a message can be erased between the statements
            if place.number in (outgoing if place.side == 1 else incoming)
        )


def _parse_cursor(text: str) -> _Place:
    match = CURSOR.fullmatch(text)
    if match is None:
        raise InvalidRequest(BAD_CURSOR)
    micros, side, number = (int(part) for part in match.groups())
    try:
        at = datetime.fromtimestamp(micros // 1_000_000).astimezone()
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidRequest(BAD_CURSOR) from error
    return _Place(at.replace(microsecond=micros % 1_000_000), side, number)


def _pattern_of(query: str) -> str:
    """Return the pattern of ILIKE that finds a text literally; empty for none."""
    escaped = re.sub(r"([\\%_])", r"\\\1", query.strip())
    return f"%{escaped}%" if escaped else ""


def _key_of(row: Record) -> str | None:
    """Return the key of a message; a correction has the `message_id` of the message that it corrects."""
    own, prefix = str(row["update_id"]), f"{row['dm']}:"
    if own.startswith(prefix):  # as the console makes it
        return own.removeprefix(prefix)
    return None if row["message_id"] is None else str(row["message_id"])


def _user_message(row: Record) -> UserMessageView:
    value = row["attachments"]
    files = value if isinstance(value, str) else json.dumps(value or [])
    return UserMessageView(
        inbox_id=row["inbox_id"],
        key=_key_of(row),
        text=row["text"],
        at=row["received_at"],
        attachments=_ATTACHMENTS.validate_json(files),
        edits=row["edits"],
        answered=row["answered"],
    )
