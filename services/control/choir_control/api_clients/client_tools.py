"""Tools of the programs that talk with agents, as control passes their calls on.

A request of the API says which tools its program offers. A call of the agent waits here until a request takes
it to the program and a later one brings the result. Nothing is stored: the agent repeats its call, so that
after a restart it is here again, under the same id.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from choir_common.errors import Conflict, NotFound
from choir_common.wire.client_tools import (
    ClientCall,
    ClientCallResult,
    ClientTool,
    ClientTools,
    ListClientTools,
)
from choir_common.wire.model import JsonObject, WireModel
from choir_control.agents.host_tools.request import parse_tool_input
from choir_control.configuration.current import ConfigService
from choir_control.log.leases.store import Lease

log = structlog.get_logger("choir.clienttools")

WAIT_S = 20.0
"""How long one request of an agent waits; then the agent repeats it."""
TAKEN_WITHIN_S = 60.0
"""Within this time a request of the program takes a call; else none is waiting for the answer."""
GONE_AFTER_S = 5.0
"""An agent that waits repeats its call sooner."""
KNOWN_WITHIN_S = 10.0
"""After a restart the agent has repeated its call by then."""
FORGET_AFTER_S = 900.0
LOOK_S = 0.2
NO_PROGRAM = "No program that offers tools waits for an answer in this conversation."


@dataclass(slots=True)
class _OpenCall:
    request: ClientCall
    opened_at: float
    left_at: float
    waiting: int = 0
    """Requests of the agent that wait now."""
    is_taken: bool = False
    result: str = ""
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    def is_alive(self, now: float) -> bool:
        """Return whether the agent still waits."""
        return self.waiting > 0 or now - self.left_at < GONE_AFTER_S


class ClientToolService:
    """Handlers of the tools `choir.client.*`, and what requests of programs do with their calls."""

    def __init__(self, configuration: ConfigService, clock: Callable[[], float]) -> None:
        """`clock` returns monotonic seconds."""
        self._configuration = configuration
        self._clock = clock
        self._offers: dict[str, tuple[ClientTool, ...]] = {}
        self._calls: dict[tuple[str, str], _OpenCall] = {}

    def may_offer(self, dm: str) -> bool:
        """Return whether the client of a conversation may offer tools."""
        return dm in self._configuration.current.tool_dms

    def offer(self, dm: str, tools: tuple[ClientTool, ...]) -> None:
        """Replace the tools of a conversation by those of a new request."""
        self._offers[dm] = tools

    async def list_tools(self, lease: Lease, _: str, arguments: JsonObject) -> WireModel:
        """Return the tools that the newest request offers. Raises Conflict if there is no program."""
        parse_tool_input(ListClientTools, arguments)
        self._check_program(lease.dm)
        return ClientTools(tools=self._offers.get(lease.dm, ()))

    async def call(self, lease: Lease, call_id: str, arguments: JsonObject) -> WireModel:
        """Give a call to the program, once per id, and wait a while for the result.

        Raises NotFound for a tool that is not offered, Conflict if no program waits.
        """
        request = parse_tool_input(ClientCall, arguments)
        key = (lease.dm, call_id)
        call = self._calls.get(key)
        if call is None:
            self._check_offered(lease.dm, request.name)
            self._forget_old()
            now = self._clock()
            call = self._calls[key] = _OpenCall(request, opened_at=now, left_at=now)
            log.info("agent calls a tool of a client", session=lease.session_id, dm=lease.dm)
        if not await self._wait(call):
            if not call.is_taken and self._clock() - call.opened_at > TAKEN_WITHIN_S:
                del self._calls[key]
                raise Conflict(NO_PROGRAM)
            return ClientCallResult(state="open")
        return ClientCallResult(state="answered", result=call.result)

    def take(self, dm: str) -> dict[str, ClientCall]:
        """Return the calls that wait for a program, by id, for a request that takes them to it."""
        now, calls = self._clock(), {}
        for (own_dm, call_id), call in self._calls.items():
            if own_dm == dm and not call.answered.is_set() and call.is_alive(now):
                call.is_taken = True
                calls[call_id] = call.request
        return calls

    async def answer(self, dm: str, call_id: str, result: str) -> None:
        """Bring the result of a call; a repetition changes nothing. Raises NotFound if no call waits."""
        deadline = self._clock() + KNOWN_WITHIN_S
        while (call := self._calls.get((dm, call_id))) is None:
            if self._clock() > deadline:
                raise NotFound(f"no call {call_id[:80]!r} of the agent waits for a result")
            await asyncio.sleep(LOOK_S)
        if not call.answered.is_set():
            call.result = result
            call.answered.set()

    async def _wait(self, call: _OpenCall) -> bool:
        call.waiting += 1
        try:
            async with asyncio.timeout(WAIT_S):
                await call.answered.wait()
        except TimeoutError:
            return False
        finally:
            call.waiting -= 1
            call.left_at = self._clock()
        return True

    def _check_program(self, dm: str) -> None:
        if not self.may_offer(dm):
            raise Conflict(NO_PROGRAM)

    def _check_offered(self, dm: str, name: str) -> None:
        self._check_program(dm)
        # after a restart nothing is known until the next request
        names = [tool.name for tool in self._offers[dm]] if dm in self._offers else [name]
        if name not in names:
            listed = ", ".join(names) or "none"
            raise NotFound(f"The program offers no tool {name!r}; it offers: {listed}.")

    def _forget_old(self) -> None:
        now = self._clock()
        old = [
            key
            for key, call in self._calls.items()
            if not call.waiting and now - call.left_at > FORGET_AFTER_S
        ]
        for key in old:
            del self._calls[key]
