"""GUARANTEES 11: while a dependency hangs, each service that needs it reports that on /readyz and stays up.

A stopped process (SIGSTOP) keeps its sockets open and answers nothing: harder to notice than one that is
gone. The supervisor replaces a service that stays like that, but not at once: here most go on before.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator

import httpx2
import psutil
import pytest

from choir_common.http.client import make_client
from tests.support.service_process import socket_of
from tests.support.stack import EmbeddedStack, console_user, running_stack

SERVICES = ("choird", "memory", "gateway", "browser", "egress")
NOTICED_WITHIN_S = 60
DEPENDENCIES = [
    ("postgres", {"choird": "postgres", "memory": "postgres"}),
    ("nats", {"choird": "nats", "memory": "nats", "gateway": "nats", "browser": "nats"}),
    pytest.param("control", {"gateway": "control"}, marks=pytest.mark.nightly),
    ("memory", {"choird": "memory"}),
    pytest.param("browser", {"choird": "browser"}, marks=pytest.mark.nightly),
    pytest.param("gateway", {"choird": "gateway"}, marks=pytest.mark.nightly),
    pytest.param("egress", {"choird": "egress"}, marks=pytest.mark.nightly),
]
"""What is stopped, and which service names which part."""


@pytest.fixture(scope="module")
def stack() -> Iterator[EmbeddedStack]:
    with running_stack() as stack:
        yield stack


@contextlib.contextmanager
def hanging(stack: EmbeddedStack, name: str) -> Iterator[None]:
    """Stop a child of the supervisor, with all it started, and let them go on."""
    parent = psutil.Process(stack.pid(name))
    # the parent first: it starts no further one then; each backend of Postgres is a session of its own
    parent.suspend()
    family = [*parent.children(recursive=True), parent]
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()
    try:
        yield
    finally:
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()


@contextlib.asynccontextmanager
async def asking(stack: EmbeddedStack, service: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with make_client(f"unix://{socket_of(stack.home, service)}") as client:
        yield client


async def reasons(stack: EmbeddedStack, service: str) -> dict[str, str]:
    """Return the parts a service misses, each with its reason; its status says the same."""
    async with asking(stack, service) as client:
        answer = await client.get("/readyz", timeout=60)
    missing = {part["name"]: part["detail"] for part in answer.json()["parts"] if not part["ok"]}
    assert answer.status_code == (503 if missing else 200)
    return missing


async def until_named(stack: EmbeddedStack, service: str, part: str) -> None:
    """Wait until a service reports that it misses a part."""
    while not (await reasons(stack, service)).get(part):
        await asyncio.sleep(0.2)


async def until_ready(stack: EmbeddedStack, service: str) -> None:
    """Wait until a service misses nothing."""
    while await reasons(stack, service):
        await asyncio.sleep(0.2)


async def is_live(stack: EmbeddedStack, service: str) -> None:
    """Check that a service answers on /livez."""
    async with asking(stack, service) as client:
        assert (await client.get("/livez")).status_code == 200


@pytest.mark.parametrize(("stopped", "told"), DEPENDENCIES)
async def test_who_needs_what_hangs_says_so_and_lives(
    stack: EmbeddedStack, stopped: str, told: dict[str, str]
) -> None:
    own = "choird" if stopped == "control" else stopped
    answering = [name for name in SERVICES if name != own]
    # all services at once: an answer about a dependency that hangs takes seconds
    with hanging(stack, stopped):
        async with asyncio.timeout(NOTICED_WITHIN_S):
            await asyncio.gather(*(until_named(stack, *pair) for pair in told.items()))
        await asyncio.gather(*(is_live(stack, service) for service in answering))
        unaffected = [service for service in answering if service not in told]
        missing = await asyncio.gather(*(reasons(stack, service) for service in unaffected))
        assert missing == [{} for _ in unaffected]
    async with asyncio.timeout(NOTICED_WITHIN_S):
        await asyncio.gather(*(until_ready(stack, service) for service in SERVICES))


async def test_services_that_stay_hung_are_replaced_and_answer_again(stack: EmbeddedStack) -> None:
    hung = {name: stack.pid(name) for name in ("control", "gateway", "memory", "browser", "nats")}
    with contextlib.ExitStack() as all_hang:
        for name in hung:
            all_hang.enter_context(hanging(stack, name))
        async with asyncio.timeout(240):
            while any(
                pid == stack.children()["children"][name]["pid"] for name, pid in hung.items()
            ):
                await asyncio.sleep(0.5)
    async with console_user(stack.endpoint) as user:
        assert await user.asks("are you all there?")


async def test_after_a_kill_of_the_supervisor_all_end_and_no_request_fails_without_words(
    stack: EmbeddedStack,
) -> None:
    state = stack.children()
    left = {name: psutil.Process(child["pid"]) for name, child in state["children"].items()}
    answers: list[httpx2.Response] = []

    async def ask_on(path: str) -> None:
        async with make_client(stack.endpoint, timeout_s=60) as client:
            with contextlib.suppress(httpx2.HTTPError):
                while True:
                    answers.append(await client.get(path))

    paths = ("/v1/dms/console/messages", "/v1/status", "/v1/agents")
    asking = [asyncio.create_task(ask_on(path)) for path in paths * 4]
    async with asyncio.timeout(60):
        while len(answers) < 2 * len(asking):
            await asyncio.sleep(0.05)
    os.kill(state["supervisor_pid"], signal.SIGKILL)
    await asyncio.gather(*asking)
    bad = [answer.text for answer in answers if answer.status_code not in (200, 503, 504)]
    assert bad == []
    async with asyncio.timeout(120):
        while any(works(process) for process in left.values()):
            await asyncio.sleep(0.1)


def works(process: psutil.Process) -> bool:
    """Tell whether a process is more than a zombie that nobody has waited for."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
