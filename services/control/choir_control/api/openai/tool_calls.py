"""Calls of a client's tools: which end a request, and the results that a later request brings."""

import asyncio

from choir_common.errors import InvalidRequest, NotFound
from choir_common.wire.client_tools import ClientCall
from choir_control.api.openai.chat_request import ChatRequest, ToolResult
from choir_control.api.openai.response_request import ResponseRequest
from choir_control.api.openai.turns import Turn, TurnService
from choir_control.api_clients.client_tools import ClientToolService

GATHER_S = 0.3
"""Calls of one answer of the model come within this time."""
_SEPARATOR = ":"


class ToolCallExchange:
    """Gives calls of an agent to the requests of a client, and takes their results.

    The id of a call that a client gets names the message, too, so that nothing has to be remembered.
    """

    def __init__(self, tools: ClientToolService, turns: TurnService) -> None:
        self._tools = tools
        self._turns = turns

    def may_offer(self, chat: ChatRequest | ResponseRequest, dm: str) -> bool:
        """Return whether the tools of a request count. In `/responses` they do not."""
        return isinstance(chat, ChatRequest) and self._tools.may_offer(dm)

    def offer(self, chat: ChatRequest | ResponseRequest, dm: str) -> None:
        """Take the tools of a request; those of an earlier one are no longer offered."""
        if self._tools.may_offer(dm):
            self._tools.offer(dm, chat.read_tools() if isinstance(chat, ChatRequest) else ())

    async def resume(self, dm: str, agent_id: str, results: tuple[ToolResult, ...]) -> Turn:
        """Bring results, and return the turn that goes on. Raises InvalidRequest if no call waits."""
        message = ""
        for result in results:
            message, _, call_id = result.call.partition(_SEPARATOR)
            try:
                await self._tools.answer(dm, call_id, result.text)
            except NotFound as error:
                raise InvalidRequest(f"messages: {error.message}.") from None
        turn = await self._turns.find(dm, agent_id, message)
        if turn is None:
            raise InvalidRequest("messages: there is no message to which these calls belong.")
        return turn

    async def take(self, turn: Turn) -> dict[str, ClientCall]:
        """Return the calls that wait for the client now, by the ids that it gets."""
        if not self._tools.take(turn.dm):
            return {}
        await asyncio.sleep(GATHER_S)
        calls = self._tools.take(turn.dm)
        return {
            f"{turn.accepted.inbox_id}{_SEPARATOR}{call_id}": call
            for call_id, call in calls.items()
        }
