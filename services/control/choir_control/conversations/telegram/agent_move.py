"""Moves an agent to another conversation: ends its session and starts it there."""

from choir_common.errors import ChoirError
from choir_common.wire.operator import StartAgent
from choir_control.agents.sessions.bindings import choose_bindings
from choir_control.agents.sessions.start import SessionStarter
from choir_control.agents.sessions.stop import SessionStopper
from choir_control.agents.sessions.store import SessionStore
from choir_control.configuration.current import ConfigService

REASON = "moved to Telegram"


class AgentMover:
    """Service that binds a running or stopped agent to another conversation."""

    def __init__(
        self,
        *,
        configuration: ConfigService,
        sessions: SessionStore,
        starter: SessionStarter,
        stopper: SessionStopper,
    ) -> None:
        self._configuration = configuration
        self._sessions = sessions
        self._starter = starter
        self._stopper = stopper

    async def move(self, agent_id: str, dm: str) -> str:
        """Let the agent talk in `dm` from now on; return what is left to do by hand, or an empty text.

        Its open work is never discarded: an agent that has some stays where it is.
        """
        start = f"`choirctl agent start {agent_id}`"
        by_hand = f"`choirctl agent stop {agent_id}`, then {start}"
        request, steps = StartAgent(dm=dm), start
        try:
            live = await self._sessions.find_live(agent_id)
            if live is not None:
                steps = by_hand
                bindings = choose_bindings(self._configuration.current, agent_id, request)
                # before the stop: a start that cannot succeed must not stop the agent
                await self._starter.check(agent_id, bindings, live.image)
                await self._stopper.stop(agent_id, REASON)
                steps = start
            unfinished = await self._sessions.find_unfinished(agent_id)
            if unfinished is None:
                await self._starter.start(agent_id, request)
                return ""
            await self._starter.restart(agent_id, unfinished.initial_bindings, unfinished.image)
        except ChoirError as error:
            reason = error.message.rstrip(".")
            return f"{agent_id} was not moved to this conversation: {reason}. Then: {steps}."
        return (
            f"{agent_id} has open work in the conversation {unfinished.bindings.dm!r} and continues it "
            f"there. When it is done: {by_hand}."
        )
