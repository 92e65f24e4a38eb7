"""Find the processes that show the pages of a context. Called by context.py for the watchdog.

The debugging protocol has no command for it. A trace starts with a list of the page's frames and
their processes. The browser process writes that list, so it includes pages that hang.
"""

import asyncio
import contextlib

from playwright.async_api import BrowserContext, CDPSession, Error, Page
from pydantic import BaseModel, ConfigDict, ValidationError

TRACE_TIMEOUT_S = 2.0
_CONFIG = {
    "traceConfig": {
        "includedCategories": ["disabled-by-default-devtools.timeline"],
        "excludedCategories": ["*"],
    },
    "transferMode": "ReportEvents",
}
_FRAMES = "TracingStartedInBrowser"


class _Frame(BaseModel):
    model_config = ConfigDict(frozen=True)

    processId: int | None = None  # noqa: N815 - as Chromium writes it


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True)

    frames: tuple[_Frame, ...] = ()


class _Arguments(BaseModel):
    model_config = ConfigDict(frozen=True)

    data: _Data = _Data()


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True)

    name: str
    args: _Arguments = _Arguments()


async def renderer_pids(context: BrowserContext) -> frozenset[int]:
    """Return the processes of all pages and their frames; pages that do not answer are skipped."""
    pids: set[int] = set()
    for page in list(context.pages):
        with contextlib.suppress(Error, TimeoutError):
            pids |= await _renderers_of_page(context, page)
    return frozenset(pids)


async def _renderers_of_page(context: BrowserContext, page: Page) -> set[int]:
    pids: set[int] = set()
    complete = asyncio.Event()

    def collect(chunk: dict[str, list[dict[str, object]]]) -> None:
        for raw in chunk["value"]:
            if raw.get("name") == _FRAMES:
                with contextlib.suppress(ValidationError):
                    frames = _Event.model_validate(raw).args.data.frames
                    pids.update(f.processId for f in frames if f.processId is not None)

    async with asyncio.timeout(TRACE_TIMEOUT_S):
        line: CDPSession = await context.new_cdp_session(page)
        line.on("Tracing.dataCollected", collect)
        line.on("Tracing.tracingComplete", lambda _: complete.set())
        await line.send("Tracing.start", _CONFIG)
        await line.send("Tracing.end")
        await complete.wait()
        await line.detach()
    return pids
