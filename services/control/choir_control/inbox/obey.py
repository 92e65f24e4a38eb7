"""Do what a command in a conversation says, instead of storing it for the agent.

Called by `accept`. A command becomes a signal of the session that holds the DM, once per message; what
is only asked (`/jobs`, `/help`) is answered at once. Nothing is said in the agent's name: the note of the
acknowledgement is for the user.
"""

from collections.abc import Callable, Sequence
from typing import assert_never

from choir_common.errors import Unavailable
from choir_common.ids import new_id
from choir_common.wire.messages import InboundMessage
from choir_common.wire.rpc import StatusReport
from choir_common.wire.signals import CancelSignal, CompactSignal, InjectSignal, SignalBody
from choir_control.inbox.commands import COMMANDS, Command, Verb, help_text, unknown_text
from choir_control.inbox.store import Holder, InboxStore, Stored
from choir_control.inbox.words import lanes_text, nobody_text, what_happens

Lanes = Callable[[str, str], Sequence[StatusReport]]
"""What the lanes of an agent's session last said of themselves."""
TAKES_SIGNALS = ("starting", "active", "crashed")


class Obedience:
    """Commands of conversations."""

    def __init__(self, store: InboxStore, lanes: Lanes, ring: Callable[[str], None]) -> None:
        self._store = store
        self._lanes = lanes
        self._ring = ring

    async def obey(self, message: InboundMessage, command: Command) -> tuple[Stored, str]:
        """Do what a command says; return what was stored, if anything, and the note for the user.

        Raises Unavailable when a twin of the message is being stored at this very moment.
        """
        match command.verb:
            case Verb.INJECT if command.argument:
                return await self._tell(message, InjectSignal(text=command.argument))
            case Verb.CANCEL:
                return await self._tell(message, CancelSignal(job=command.argument or None))
            case Verb.COMPACT:
                return await self._tell(message, CompactSignal())
            case _:
                holder = await self._store.holder(message.dm)
                stored = Stored("", False, None, None)
                if holder is not None:
                    stored = Stored("", False, holder.agent_id, holder.status)
                return stored, self._answer(command, holder)

    def _answer(self, command: Command, holder: Holder | None) -> str:
        """Answer what needs nobody to be told."""
        match command.verb:
            case None:
                return unknown_text(command)
            case Verb.HELP:
                return help_text()
            case Verb.JOBS:
                if holder is None:
                    return nobody_text(None, None)
                lanes = self._lanes(holder.agent_id, holder.session_id)
                return lanes_text(holder.agent_id, lanes)
            case Verb.INJECT | Verb.CANCEL | Verb.COMPACT:
                return f"Say what: {COMMANDS[command.verb].usage}. Nothing was sent."
            case _:
                assert_never(command.verb)

    async def _tell(self, message: InboundMessage, body: SignalBody) -> tuple[Stored, str]:
        stored = await self._store.obey(new_id("in"), message, body)
        if stored is None:
            raise Unavailable("The same command is being stored elsewhere; try again.")
        if stored.agent_id is None or stored.session_status not in TAKES_SIGNALS:
            return stored, nobody_text(stored.agent_id, stored.session_status)
        if not stored.duplicate:
            self._ring(message.dm)
        return stored, what_happens(body, stored.agent_id, stored.session_status)
