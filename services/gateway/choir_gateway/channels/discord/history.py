"""Reading of what was written while no session of the gateway was open. Called by `receiver`."""

import discord

from choir_common.wire.model import JsonObject
from choir_gateway.channels.discord.client import DiscordClient
from choir_gateway.channels.discord.places import DiscordPlace
from choir_gateway.channels.discord.read_marks import DiscordReadMark, ReadMarkStore
from choir_gateway.channels.interface import ConversationDirectory

# Edits of older messages that were made while the gateway was away are not seen.
RECENT = 50


class DiscordHistory:
    """The histories of one bot's conversations."""

    def __init__(
        self,
        client: DiscordClient,
        marks: ReadMarkStore,
        *,
        gateway: str,
        conversations: ConversationDirectory,
    ) -> None:
        self._client = client
        self._marks = marks
        self._gateway = gateway
        self._conversations = conversations

    async def fetch_recent(self, place: DiscordPlace) -> list[discord.Message]:
        """Return the last messages of a place, oldest first; raises the errors of the library."""
        channel = await self._open(place)
        recent = [it async for it in channel.history(limit=RECENT)]
        return recent[::-1]

    async def fetch_missed(self, place: DiscordPlace) -> list[tuple[DiscordPlace, discord.Message]]:
        """Return the messages since the mark and some before it, which may have been edited.

        Those of a channel's threads that have no conversation of their own are among them. Raises the errors
        of the library.
        """
        mark = self._marks.find(place.mark) or DiscordReadMark()
        missed = await self.fetch_recent(place)
        if len(missed) == RECENT and missed[0].id > mark.message_id:
            missed = await self._fetch_since(place, mark)
        messages = [(place, message) for message in missed]
        if place.is_group and not place.dm.topic:
            for thread in await self._find_threads(place, mark):
                since = self._marks.find(thread.mark) or mark
                messages += [(thread, it) for it in await self._fetch_since(thread, since)]
        return sorted(messages, key=lambda pair: pair[1].id)

    async def _fetch_since(
        self, place: DiscordPlace, mark: DiscordReadMark
    ) -> list[discord.Message]:
        channel = await self._open(place)
        since = discord.Object(mark.message_id)
        return [it async for it in channel.history(limit=None, after=since, oldest_first=True)]

    async def _find_threads(self, place: DiscordPlace, mark: DiscordReadMark) -> list[DiscordPlace]:
        """Return the channel's open threads with messages after their mark, or else that of the channel."""
        channel = await self._client.call(
            "GET", "/channels/{channel_id}", channel_id=place.channel_id
        )
        answer = await self._client.call(
            "GET", "/guilds/{guild_id}/threads/active", guild_id=str(channel["guild_id"])
        )
        threads: list[DiscordPlace] = []
        for item in answer["threads"]:
            thread = self._place_of_thread(place, item)
            since = thread and (self._marks.find(thread.mark) or mark)
            if thread and since and int(item["last_message_id"] or 0) > since.message_id:
                threads.append(thread)
        return threads

    def _place_of_thread(self, place: DiscordPlace, item: JsonObject) -> DiscordPlace | None:
        thread_id = str(item["id"])
        dm = self._conversations.find_group(self._gateway, place.channel_id, thread_id)
        if item["parent_id"] != place.channel_id or dm is None or dm.name != place.dm.name:
            return None
        return DiscordPlace(place.dm, place.channel_id, thread_id)

    async def _open(self, place: DiscordPlace) -> discord.abc.Messageable:
        if place.is_group:
            return self._client.get_partial_messageable(int(place.thread_id or place.channel_id))
        return await self._client.create_dm(discord.Object(int(place.dm.user_id)))
