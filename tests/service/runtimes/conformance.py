"""Promises about life and death of agents that the runtimes with containers and pods both keep."""

import asyncio
import contextlib
import signal
import time
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import pytest

from choir_common.errors import Conflict, Unavailable
from choir_control.agents.runtimes.port import AgentExit, AgentRuntime, LaunchSpec
from tests.security.runtimes.confined import TOKEN

WAITS = """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print('what a day', file=sys.stderr, flush=True)
report({'boot': boot, 'rest': sys.stdin.read(), 'directory': os.getcwd(),
        'soul': Path('/choir/SOUL.md').read_text()})
while True:
    time.sleep(60)
"""
STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN); report(1)\nwhile True: time.sleep(9)"


class Yard(Protocol):
    """A state directory and the runtime that serves it."""

    home: Path

    @property
    def runtime(self) -> AgentRuntime:
        """Return the runtime under test."""

    def spec(self, agent_id: str = "main", epoch: int = 1) -> LaunchSpec:
        """Describe a start of one of the agents, making its directories."""

    async def next_exit(self) -> AgentExit:
        """Return the next exit."""

    async def report(self, agent_id: str = "main") -> Any:
        """Return what the agent's program reported, as soon as it has."""

    def another(self) -> AgentRuntime:
        """Make the runtime of a second control process with the same state directory."""

    async def places(self) -> list[str]:
        """Return the handles of this yard's containers or pods, living or not."""

    async def kill(self) -> None:
        """Kill the only agent's process from outside."""

    async def remove(self) -> None:
        """Remove the only container or pod from outside."""

    async def cut_events(self) -> None:
        """Break the stream of events."""


class RuntimeConformance:
    """Tests of a runtime; a subclass says how to make its images and yards.

    Its module has the fixture `waiting`: the image of `WAITS`, made once.
    """

    def image(self, code: str) -> AbstractContextManager[str]:
        """Make an image whose program is `code` after the prelude."""
        raise NotImplementedError

    def yard(self, image: str) -> AbstractAsyncContextManager[Yard]:
        """Make a yard whose agents run `image`."""
        raise NotImplementedError

    async def test_an_agent_gets_its_boot_line_and_then_the_end_of_input(
        self, waiting: str
    ) -> None:
        async with self.yard(waiting) as yard:
            spec = yard.spec()
            running = await yard.runtime.start(spec)
            report = await yard.report()
            assert await yard.runtime.list_running() == [running]
            assert (await yard.places())[0].startswith(running.handle)
        address = spec.control_address("/run/choir")
        assert report["boot"] == {
            "agent_id": "main",
            "session_id": "ses_main",
            "epoch": 1,
            "lease_token": TOKEN,
            "endpoint": address.endpoint,
            "ca_pem": address.ca_pem,
            "workspace": "/workspace",
            "choir_dir": "/choir",
            "image_version": "",
            "egress_socket": "",
            "egress_key": "",
            "egress_address": "",
            "egress_certificate": "",
        }
        assert report["rest"] == ""
        assert report["directory"] in ("/workspace", str(spec.workspace))
        assert report["soul"] == "kind"

    async def test_stopping_asks_first_and_leaves_nothing(self, waiting: str) -> None:
        async with self.yard(waiting) as yard:
            await yard.runtime.start(yard.spec())
            await yard.report()
            await yard.runtime.stop("main", grace_s=20)
            exit_ = await yard.next_exit()
            assert (exit_.agent_id, exit_.session_id, exit_.epoch) == ("main", "ses_main", 1)
            assert exit_.code == 7, exit_
            assert await yard.runtime.list_running() == []
            assert await yard.places() == []
            assert "what a day" in (yard.home / "logs" / "main.log").read_text()

    async def test_a_killed_agent_is_told_at_once_and_can_be_started_again(
        self, waiting: str
    ) -> None:
        async with self.yard(waiting) as yard:
            await yard.runtime.start(yard.spec())
            await yard.report()
            await yard.kill()
            exit_ = await yard.next_exit()
            assert exit_.code == 128 + signal.SIGKILL, exit_
            running = await yard.runtime.start(yard.spec(epoch=2))
            assert running.epoch == 2

    async def test_a_removal_by_somebody_else_is_an_exit_too(self, waiting: str) -> None:
        async with self.yard(waiting) as yard:
            await yard.runtime.start(yard.spec())
            await yard.report()
            await yard.remove()
            assert (await yard.next_exit()).epoch == 1

    async def test_an_agent_that_runs_cannot_be_started_again(self, waiting: str) -> None:
        async with self.yard(waiting) as yard:
            await yard.runtime.start(yard.spec())
            with pytest.raises(Conflict):
                await yard.runtime.start(yard.spec(epoch=2))
            # not even by a second control that knows nothing of the first
            second = yard.another()
            with pytest.raises(Conflict):
                await second.start(yard.spec(epoch=2))
            await second.close()
            assert len(await yard.places()) == 1

    async def test_a_stubborn_agent_is_killed_after_its_grace(self) -> None:
        with self.image(STUBBORN) as image:
            async with self.yard(image) as yard:
                await yard.runtime.start(yard.spec())
                await yard.report()
                await yard.runtime.stop("main", grace_s=1)
                assert (await yard.next_exit()).code == 128 + signal.SIGKILL

    async def test_the_next_control_removes_orphans_but_no_stranger(self, waiting: str) -> None:
        async with self.yard(waiting) as yard, self.yard(waiting) as neighbour:
            await yard.runtime.start(yard.spec())
            await neighbour.runtime.start(neighbour.spec())
            await yard.report()
            next_control = yard.another()
            assert await next_control.remove_orphans() == 1
            assert await yard.places() == []
            assert "what a day" in (yard.home / "logs" / "main.log").read_text()
            assert len(await neighbour.places()) == 1
            assert await neighbour.runtime.remove_orphans() == 0
            await next_control.close()

    async def test_an_exit_while_the_events_were_cut_off_is_found_again(self, waiting: str) -> None:
        async with self.yard(waiting) as yard:
            await yard.runtime.start(yard.spec())
            await yard.report()
            await yard.cut_events()
            await yard.kill()
            assert (await yard.next_exit()).epoch == 1

    async def test_a_missing_image_is_said_in_a_sentence_and_leaves_nothing(self) -> None:
        async with self.yard("choir-agent:no-such-image") as yard:
            with pytest.raises(Unavailable, match="choir-agent:no-such-image"):
                await yard.runtime.start(yard.spec())
            assert await yard.places() == []
            assert await yard.runtime.list_running() == []

    async def test_a_missing_workspace_is_refused_and_not_made(self, waiting: str) -> None:
        async with self.yard(waiting) as yard:
            spec = yard.spec()
            spec.workspace.rmdir()
            with pytest.raises(Unavailable, match="workspaces/main"):
                await yard.runtime.start(spec)
            assert not spec.workspace.exists()
            assert await yard.places() == []

    async def test_closing_kills_what_runs_and_ends_the_stream_of_exits(self, waiting: str) -> None:
        async with self.yard(waiting) as yard:
            await yard.runtime.start(yard.spec("one"))
            await yard.runtime.start(yard.spec("two"))
            began = time.monotonic()
            await yard.runtime.close()
            assert await yard.places() == []
            assert len([exit_ async for exit_ in yard.runtime.exits()]) == 2
            assert time.monotonic() - began < 30

    async def test_the_loop_stays_free_while_an_agent_starts(self, waiting: str) -> None:
        async with self.yard(waiting) as yard:
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    await asyncio.sleep(0.005)
                    ticks += 1

            ticking = asyncio.create_task(tick())
            await yard.runtime.start(yard.spec())
            ticking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await ticking
            assert ticks >= 3
