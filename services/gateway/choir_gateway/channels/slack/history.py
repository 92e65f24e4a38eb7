"""Reading of histories: what was missed, and the first message of a thread. Called by `receiver`."""

import asyncio
from collections import OrderedDict

import structlog

from choir_common.errors import ChoirError
from choir_gateway.channels.file_transfer import RefusedError
from choir_gateway.channels.slack.addresses import parse_group
from choir_gateway.channels.slack.client import SlackClient
from choir_gateway.channels.slack.errors import SlackRefusedError, SlackScopeError
from choir_gateway.channels.slack.message_calls import SlackMessageCalls
from choir_gateway.channels.slack.payloads import MessageObject, SlackHistoryPage, ts_order
from choir_gateway.channels.slack.read_marks import SlackReadMark

log = structlog.get_logger("choir.gateway.slack")

PAGE = 200
MAX_GROUP_PAGES = 10
"""Of a channel, in which much may have been written meanwhile."""
PAGE_TIMEOUT_S = 60.0
ROOT_TIMEOUT_S = 5.0
MAX_ROOTS = 200


class HistoryReader:
    """Reader of the histories of one app's direct messages and channels, by the address of either."""

    def __init__(self, client: SlackClient, calls: SlackMessageCalls) -> None:
        self._client = client
        self._calls = calls
        self._roots: OrderedDict[tuple[str, str], MessageObject] = OrderedDict()

    async def find_newest(self, user_id: str) -> str:
        """Return the `ts` of the newest message; `0.0` if there is none. Raises as SlackClient.call."""
        channel = await self._calls.open_channel(user_id, _deadline())
        arguments = {"channel": channel, "limit": "1"}
        topic = _topic_of(user_id)
        if topic is None:
            page = await self._fetch("conversations.history", arguments)
        else:
            page = await self._fetch("conversations.replies", {**arguments, "ts": topic})
        times = [ts for it in page.messages for ts in (it.ts, it.latest_reply or it.ts)]
        return max(times, key=ts_order, default="0.0")

    async def fetch_missed(self, user_id: str, mark: SlackReadMark) -> list[MessageObject]:
        """Return all messages after the floor of a mark in order, also those that control has.

        Raises as SlackClient.call.
        """
        channel = await self._calls.open_channel(user_id, _deadline())
        oldest = mark.floor or "0"
        group = parse_group(user_id)
        if group is not None and group.thread is not None:
            topic = group.thread
            arguments = {"channel": channel, "ts": topic, "oldest": oldest}
            replies = await self._fetch_all("conversations.replies", arguments)
            return [it for it in replies if it.ts != topic and not mark.is_old(it.ts)]
        messages = await self._fetch_all(
            "conversations.history", {"channel": channel, "oldest": oldest}
        )
        # A history has no replies; they may belong to a message from before the mark.
        roots = {
            it.ts
            for it in messages
            if it.latest_reply is not None and not (group and mark.knows(it.latest_reply))
        }
        # Channels have many threads; those in which nobody asked the agent are left out.
        threads = mark.threads if group else (it.thread for it in mark.recent.values())
        roots |= {it for it in threads if it is not None}
        for root in sorted(roots, key=ts_order):
            arguments = {"channel": channel, "ts": root, "oldest": oldest}
            try:
                replies = await self._fetch_all("conversations.replies", arguments)
            except RefusedError as refusal:
                # The thread was deleted.
                log.info("thread not read", error=refusal.text)
                continue
            messages += [it for it in replies if it.ts != root]
        # A reply that is shown in the conversation, too, comes twice.
        unique = {it.ts: it for it in messages if not mark.is_old(it.ts)}
        return sorted(unique.values(), key=lambda it: ts_order(it.ts))

    async def find_root(self, user_id: str, thread_ts: str) -> MessageObject | None:
        """Return the first message of a thread; None if it cannot be read soon."""
        key = (user_id, thread_ts)
        if key in self._roots:
            return self._roots[key]
        deadline = asyncio.get_running_loop().time() + ROOT_TIMEOUT_S
        try:
            channel = await self._calls.open_channel(user_id, deadline)
            arguments = {"channel": channel, "ts": thread_ts, "limit": "1"}
            page = await self._client.call(
                "conversations.replies",
                arguments,
                SlackHistoryPage,
                deadline=deadline,
                is_form=True,
            )
        except (ChoirError, RefusedError) as error:
            log.info("quoted message not read", error=str(error))
            return None
        root = next((it for it in page.messages if it.ts == thread_ts), None)
        if root is not None:
            self._roots[key] = root
            if len(self._roots) > MAX_ROOTS:
                self._roots.popitem(last=False)
        return root

    async def _fetch_all(self, method: str, arguments: dict[str, str]) -> list[MessageObject]:
        messages: list[MessageObject] = []
        cursor, pages = "", 0
        max_pages = None if parse_group(arguments["channel"]) is None else MAX_GROUP_PAGES
        while True:
            pages += 1
            page = await self._fetch(
                method,
                {**arguments, "limit": str(PAGE), **({"cursor": cursor} if cursor else {})},
            )
            messages += page.messages
            cursor = page.response_metadata.next_cursor if page.response_metadata else ""
            if not cursor or pages == max_pages:
                return messages

    async def _fetch(self, method: str, arguments: dict[str, str]) -> SlackHistoryPage:
        try:
            return await self._client.call(
                method, arguments, SlackHistoryPage, deadline=_deadline(), is_form=True
            )
        except SlackScopeError as error:
            if parse_group(arguments["channel"]) is None:
                raise
            # A channel that cannot be read must not keep direct messages waiting.
            raise SlackRefusedError(error.message) from error


def _topic_of(address: str) -> str | None:
    """Return the thread that is a conversation of its own."""
    group = parse_group(address)
    return group.thread if group else None


def _deadline() -> float:
    return asyncio.get_running_loop().time() + PAGE_TIMEOUT_S
