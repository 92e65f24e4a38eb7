"""The role of this control process: leader, or standby of another.

A leader that loses its connection to Postgres waits for it, because a Postgres that is away harms no agent.
It ends when Postgres says that another process has led meanwhile. Until then it cannot write: the other one
has ended its sessions, and new ones are refused (`prepare`). docs/decisions/0115 has the reasons.
"""

import asyncio
import contextlib

import structlog

from choir_common.errors import ChoirError, Unavailable
from choir_common.postgres.pool import DedicatedConnection
from choir_control.leadership.lock_store import FENCE_WITHIN_MS, LeaderLock

log = structlog.get_logger("choir.leadership")

INTERVAL_S = 1.0
"""Seconds between two checks of the leader, and the time after which an answer is slow to a standby."""
STANDBY_INTERVAL_S = 0.25
"""Seconds between two attempts of a standby. Postgres frees the lock of a killed process at once."""
ANSWER_S = 3.0
"""Seconds after which a missing answer of Postgres counts as a loss of the connection."""
REGAIN_PAUSE_S = 0.2
CALM_S = 3.0
"""Seconds for which a standby that lost Postgres itself leaves the lock to the leader, whose agents run."""
SLOW_S = 35.0
"""Seconds for which the leader waits on a connection that answers slowly."""
FENCE_S = 4 * FENCE_WITHIN_MS / 1000


class LeadershipLost(ChoirError):
    """Another control process leads this installation."""

    exit_code = 75


class Leadership:
    """Acquires, checks and releases the lock of the leader."""

    def __init__(self, lock: LeaderLock) -> None:
        self._lock = lock
        self._term: int | None = None
        self._is_held = asyncio.Event()
        self._is_certain = asyncio.Event()
        self._in_doubt = asyncio.Event()
        self._is_released = False
        self.has_standby = False
        """Whether another process waits for the lock, as far as known."""

    @property
    def is_leader(self) -> bool:
        """Return whether this process leads, as far as it knows."""
        return self._is_held.is_set()

    async def start(self) -> bool:
        """Connect, and take the lock if it is free; return whether this process leads now.

        Waits up to 30 s for a server that is starting. Raises StartupError.
        """
        await self._lock.connect_at_start()
        try:
            return await self._take()
        except (Unavailable, TimeoutError) as error:
            self._drop(error)
            return False

    async def wait(self) -> None:
        """Wait as a standby until this process leads."""
        loop = asyncio.get_running_loop()
        calm_at = loop.time()
        while True:
            await asyncio.sleep(STANDBY_INTERVAL_S)
            began_at = loop.time()
            try:
                if await self._try_as_standby(may_take=began_at >= calm_at):
                    return
            except (Unavailable, TimeoutError) as error:
                self._drop(error)
            # A Postgres that comes back is the leader's first, if it lives: its agents run.
            if not self._lock.is_connected or loop.time() - began_at > INTERVAL_S:
                calm_at = loop.time() + CALM_S

    async def _try_as_standby(self, *, may_take: bool) -> bool:
        if not self._lock.is_connected:
            async with asyncio.timeout(ANSWER_S):
                await self._lock.connect()
            return False
        if may_take:
            return await self._take()
        async with asyncio.timeout(ANSWER_S):
            await self._lock.holder()  # shows Postgres that this session lives
        return False

    async def _take(self) -> bool:
        async with asyncio.timeout(ANSWER_S):
            if not await self._lock.try_take():
                return False
        async with asyncio.timeout(FENCE_S):
            ended_sessions = await self._lock.fence()
        log.info("this control process leads", ended_sessions=ended_sessions)
        self._is_held.set()
        self._is_certain.set()
        return True

    async def begin_term(self) -> None:
        """Record that this process leads; the schema must be current. Raises Unavailable."""
        self._term = await self._lock.begin_term()

    async def prepare(self, connection: DedicatedConnection) -> None:
        """Refuse a new connection of the pool unless this process holds the lock.

        Raises Unavailable. Waits for the lock while it is being regained; the caller has a deadline.
        """
        await self._is_held.wait()
        if not await self._lock.is_held(connection):
            raise Unavailable(LeadershipLost().message, retry_after_s=INTERVAL_S)

    async def until_certain(self) -> None:
        """Wait while another process may have become the leader."""
        await self._is_certain.wait()

    async def until_in_doubt(self) -> None:
        """Wait until another process may have become the leader; never without a standby."""
        await self._in_doubt.wait()

    async def watch(self) -> None:
        """Check the lock each second, and when its connection ends, until it is released.

        Raises LeadershipLost when another process leads or has led.
        """
        loop = asyncio.get_running_loop()
        checked_at = loop.time()
        while True:
            # after a slow answer at once: Postgres counts from it how long this session is silent
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(checked_at + INTERVAL_S):
                    await self._lock.closed.wait()
            checked_at = loop.time()
            is_held = await self._check()
            if self._is_released:
                return
            if is_held:
                self._end_doubt()
            else:
                self._is_held.clear()
                self._begin_doubt("the connection to Postgres is lost")
                await self._regain()

    async def _check(self) -> bool:
        """Return whether the lock's connection answers, however slowly, and the lock is still held."""
        async with asyncio.TaskGroup() as tasks:
            question = tasks.create_task(self._ask())
            await asyncio.wait((question,), timeout=ANSWER_S)
            if not question.done():
                self._begin_doubt(f"Postgres has not answered for {ANSWER_S:g} s")
                await self._wait_for_slow(question)
                if await question:
                    # It may have been held up on its way, and says nothing about now.
                    return await self._ask_within(SLOW_S)
        return await question

    async def _ask_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._ask()
        except TimeoutError:
            return False

    async def _ask(self) -> bool:
        try:
            self.has_standby = await self._lock.has_standby()
        except Unavailable:
            return False
        return True

    async def _wait_for_slow(self, question: "asyncio.Task[bool]") -> None:
        """Wait until Postgres answers, says that this session is gone, or was silent for too long."""
        deadline = asyncio.get_running_loop().time() + SLOW_S
        while not question.done() and asyncio.get_running_loop().time() < deadline:
            try:
                async with asyncio.timeout(ANSWER_S):
                    if await self._lock.ask_holder() != self._lock.name:
                        break
            except (Unavailable, TimeoutError):
                pass  # Postgres is away or slow for everybody
            await asyncio.wait((question,), timeout=INTERVAL_S)
        if not question.done():
            self._lock.drop()  # which fails the question

    async def _regain(self) -> None:
        """Take the lock again. Raises LeadershipLost when another process leads or has led meanwhile."""
        loop = asyncio.get_running_loop()
        refused_at: float | None = None
        while not self._is_released:
            try:
                async with asyncio.timeout(ANSWER_S):
                    holder = await self._retake()
            except (Unavailable, TimeoutError):
                self._lock.drop()
                refused_at = None
            else:
                if holder == self._lock.name:
                    self._is_held.set()
                    self._end_doubt()
                    return
                # A standby whose connection broke may hold the lock for a moment longer than it lives.
                refused_at = refused_at or loop.time()
                if loop.time() - refused_at > ANSWER_S:
                    raise LeadershipLost
            await asyncio.sleep(REGAIN_PAUSE_S)

    async def _retake(self) -> str | None:
        """Try to take the lock; return the name of who holds it now. Raises LeadershipLost."""
        if not self._lock.is_connected:
            await self._lock.connect()
        is_taken = await self._lock.try_take()
        if self._term is None:  # lost before its first write; the next start begins again
            raise LeadershipLost
        if await self._lock.read_term() != self._term:
            raise LeadershipLost
        if is_taken:
            return self._lock.name
        holder = await self._lock.holder()
        if holder == self._lock.name:  # the server has not noticed that the old connection is gone
            await self._lock.end_own_session()
            return None
        return holder

    def _begin_doubt(self, reason: str) -> None:
        log.warning("leadership in doubt", reason=reason, has_standby=self.has_standby)
        if self.has_standby:
            self._is_certain.clear()
            self._in_doubt.set()

    def _end_doubt(self) -> None:
        if self._in_doubt.is_set():
            log.info("leadership confirmed")
        self._in_doubt.clear()
        self._is_certain.set()

    def _drop(self, error: Exception) -> None:
        log.info("a standby cannot reach Postgres", error=str(error) or type(error).__name__)
        self._lock.drop()

    def release(self) -> None:
        """Free the lock; a standby takes it at once. The process must not write afterwards."""
        self._is_released = True
        self._is_held.clear()
        self._lock.drop()
