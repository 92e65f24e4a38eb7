"""The web page in Chromium: the time until its chat can be used, and its frames while a session is busy.

A load begins with an empty cache; its floor is one small file of the same server. Then the session yields 60
events a second in the log, and 60 parts of an answer a second in the chat. The floor is an empty page in the
same browser meanwhile: Chromium, the stack and the model share the machine.
"""

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from playwright.async_api import CDPSession, Page

from choir_common.errors import Unavailable
from tests.bench.edge_latency import ENDLESS
from tests.bench.figures import percentile
from tests.support.stack import sessions_of
from tests.support.web_cockpit import Cockpit, ask, running_cockpit, use_tools
from tests.support.web_page import open_context

LOADS = 9
SECONDS = 20
PER_SECOND = 60
CALLS_A_SECOND = 20
"""Each call of a tool is three events."""
LATE_MS = 50
NOTE_USABLE = """
window.usable = new Promise((resolve) => {
  new MutationObserver((_, observer) => {
    if (!document.querySelector('.composer textarea')) return;
    observer.disconnect();
    // after the task that drew it, so that keys are accepted
    setTimeout(() => resolve(performance.now()));
  }).observe(document, {childList: true, subtree: true});
});
"""
NOTE_FRAMES = """() => {
  window.frameMs = [];
  window.taskMs = [0];
  let last = performance.now();
  const frame = (now) => {
    frameMs.push(now - last);
    last = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) taskMs.push(entry.duration);
  }).observe({type: 'longtask'});
}"""
READ_SIZE = """() => ['navigation', 'resource'].flatMap((it) => performance.getEntriesByType(it))
  .filter((it) => it.name.includes('/web/')).reduce((sum, it) => sum + it.encodedBodySize, 0)"""
READ_LOAD = "performance.getEntriesByType('navigation')[0].domComplete"

Work = Callable[[Cockpit], Awaitable[None]]


def endless(config: dict[str, Any]) -> None:
    """Change a config.json so that no budget ends a busy turn."""
    config["budgets"] = {
        "total_session_tokens": ENDLESS,
        "max_tool_calls_per_session": ENDLESS,
        "max_steps_per_turn": ENDLESS,
        "max_tool_calls_per_turn": ENDLESS,
    }


async def measure_web_page() -> dict[str, dict[str, float]]:
    """Return the figures of a cold load, the log and the chat; raises Unavailable without a Chromium."""
    if shutil.which("chromium") is None:
        raise Unavailable("No Chromium was found.")
    async with running_cockpit(endless) as cockpit:
        (await ask(cockpit, "hello")).end("Hello!")
        [session] = await sessions_of(cockpit.stack)
        loads = await _load(cockpit)
        log = await _beside_floor(cockpit, ("log", session["session_id"]), ".log-group", _write_log)
        chat = await _beside_floor(cockpit, ("chat",), ".message", _write_answer)
    return {
        "cold load": loads,
        f"log, {PER_SECOND} events a second": log,
        f"chat, {PER_SECOND} parts a second": chat,
    }


async def _load(cockpit: Cockpit) -> dict[str, float]:
    """Load the page with an empty cache several times, signed in."""
    state = await cockpit.context.storage_state()
    usable: list[float] = []
    floor: list[float] = []
    work: list[float] = []
    size = 0.0
    for _ in range(LOADS + 1):
        context = await open_context(cockpit.browser, storage_state=state)
        await context.add_init_script(NOTE_USABLE)
        page = await context.new_page()
        devtools = await context.new_cdp_session(page)
        await devtools.send("Performance.enable")
        await page.goto(f"{cockpit.stack.url}/web/")
        usable.append(await page.evaluate("window.usable"))
        work.append(await _processor_ms(devtools))
        await page.keyboard.press("x")
        if await page.locator(".composer textarea").input_value() != "x":
            raise AssertionError("the field takes no keys yet")
        size = await page.evaluate(READ_SIZE)
        await page.goto(f"{cockpit.stack.url}/web/assets/0/icons/choir.svg")
        floor.append(await page.evaluate(READ_LOAD))
        await context.close()
    # the first one also fills the caches of the stack
    return {
        "usable_p50_ms": round(percentile(usable[1:], 0.5)),
        "usable_max_ms": round(max(usable[1:])),
        "processor_p50_ms": round(percentile(work[1:], 0.5)),
        "files_kb": round(size / 1000, 1),
        "floor_p50_ms": round(percentile(floor[1:], 0.5)),
        "loads": LOADS,
        "load_average": round(os.getloadavg()[0], 1),
    }


async def _processor_ms(devtools: CDPSession) -> float:
    """Return the processor time of the page's process so far; it hardly grows with load."""
    found = await devtools.send("Performance.getMetrics")
    return 1_000 * next(it["value"] for it in found["metrics"] if it["name"] == "ProcessTime")


async def _beside_floor(
    cockpit: Cockpit, parts: tuple[str, ...], ready: str, work: Work
) -> dict[str, float]:
    await cockpit.open(*parts)
    await cockpit.page.locator(ready).first.wait_for()
    page = await _frames_during(cockpit, work)
    await cockpit.page.goto("about:blank")
    floor = await _frames_during(cockpit, work)
    return page | {f"floor_{name}": value for name, value in floor.items()}


async def _frames_during(cockpit: Cockpit, work: Work) -> dict[str, float]:
    """Return how late the frames of the open page are while the session works."""
    await cockpit.page.evaluate(NOTE_FRAMES)
    await work(cockpit)
    return await _read_frames(cockpit.page)


async def _read_frames(page: Page) -> dict[str, float]:
    frames: list[float] = await page.evaluate("window.frameMs.slice(1)")
    tasks: list[float] = await page.evaluate("window.taskMs")
    return {
        "longest_task_ms": round(max(tasks)),
        "late_frames_pct": round(100 * sum(ms > LATE_MS for ms in frames) / len(frames), 2),
        "longest_frame_ms": round(max(frames)),
    }


@contextlib.asynccontextmanager
async def _paced(seconds: float) -> AsyncIterator[None]:
    start = time.perf_counter()
    yield
    await asyncio.sleep(max(0.0, seconds - (time.perf_counter() - start)))


async def _write_log(cockpit: Cockpit) -> None:
    """Let the agent call tools for `SECONDS`."""
    notes = cockpit.stack.home / "workspaces" / "main" / "notes.txt"
    notes.write_text("".join(f"line {number}\n" for number in range(SECONDS * CALLS_A_SECOND)))
    call = await ask(cockpit, "Read the notes")
    for second in range(SECONDS):
        first = second * CALLS_A_SECOND
        async with _paced(1.0):
            use_tools(
                call,
                *(
                    ("choir.fs.read", {"path": "notes.txt", "offset": first + n, "length": 10})
                    for n in range(CALLS_A_SECOND)
                ),
            )
            call = await cockpit.model.next_call()
    call.end("Done.")


async def _write_answer(cockpit: Cockpit) -> None:
    """Write parts of an answer for `SECONDS`."""
    call = await ask(cockpit, "Tell me a story")
    for number in range(SECONDS * PER_SECOND):
        async with _paced(1 / PER_SECOND):
            call.say(f"word {number} **of** it, " if number % 40 else f"\n\n- part {number}\n\n")
    call.end("The end.")
