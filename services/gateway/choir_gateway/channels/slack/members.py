"""Names of the people who write in channels, as Slack shows them. Called by `receiver`."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

import structlog

from choir_common.errors import ChoirError
from choir_common.wire.speakers import GroupMember
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.slack.client import SlackClient
from choir_gateway.channels.slack.payloads import UserResponse

log = structlog.get_logger("choir.gateway.slack")

MAX_MEMBERS = 500
CALL_TIMEOUT_S = 5.0
KNOWN_S = 3600.0
"""Names change, so one is asked for again after this time."""
UNKNOWN_S = 60.0
"""As `KNOWN_S`, after Slack did not tell the name."""


@dataclass(frozen=True, slots=True)
class _Entry:
    member: GroupMember | None
    until: float


class SlackMembers:
    """The members of one workspace, as far as they were asked for."""

    def __init__(self, client: SlackClient) -> None:
        self._client = client
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    async def find(self, user_id: str) -> GroupMember | None:
        """Return a member, with the id as the name if Slack does not tell it soon; None for a bot."""
        now = asyncio.get_running_loop().time()
        entry = self._entries.get(user_id)
        if entry is None or entry.until <= now:
            entry = await self._ask(user_id, now)
            self._entries[user_id] = entry
            if len(self._entries) > MAX_MEMBERS:
                self._entries.popitem(last=False)
        self._entries.move_to_end(user_id)
        return entry.member

    async def _ask(self, user_id: str, now: float) -> _Entry:
        try:
            response = await self._client.call(
                "users.info",
                {"user": user_id},
                UserResponse,
                deadline=now + CALL_TIMEOUT_S,
                is_form=True,
            )
        except (ChoirError, RefusedError) as error:
            log.warning("name not read", user_id=user_id, error=str(error))
            return _Entry(GroupMember(user_id=user_id, name=user_id), now + UNKNOWN_S)
        user = response.user
        if user.is_bot:
            return _Entry(None, now + KNOWN_S)
        names = (user.profile.display_name, user.profile.real_name, user.name)
        name = next((it for it in names if it.strip()), user_id)
        return _Entry(GroupMember(user_id=user_id, name=name), now + KNOWN_S)
