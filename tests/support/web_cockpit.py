"""A stack whose operator is signed in at the web page, for the tests of the pages beside the chat."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, Page, expect

from tests.support.stack import (
    ConsoleUser,
    EmbeddedStack,
    console_user,
    running_stack_in_thread,
)
from tests.support.streaming_model import StreamedCall, StreamingModel, run_streaming
from tests.support.web_page import (
    PATIENCE_MS,
    PHONE,
    WebTab,
    open_context,
    open_tab,
    running_chromium,
)
from tests.support.xss_corpus import xss_corpus

expect.set_options(timeout=PATIENCE_MS)
EVERY_LOOK = bool(os.environ.get("CHOIR_TEST_EVERY_LOOK"))
"""Whether axe looks at each state of each page, also wide and in the light, and each page shows all hostile
texts, as in `make nightly`."""
LOOKS = {
    "approvals-pending", "cost-money", "log-session", "memory-forget-preview", "memory-search", "now-busy",
    "setup-agents", "setup-config", "setup-guide",
}  # fmt: skip
"""What axe looks at in `make test`: each page once, and a dialog. test_web_page.py looks at the chat."""


def hostile_texts(part: int) -> list[str]:
    """Return the texts of `xss_corpus`: in `make test` one quarter of them, `part` from 0 to 3.

    Each quarter has every payload, in one of its contexts.
    """
    texts = list(xss_corpus())
    return texts if EVERY_LOOK else texts[part::4]


@dataclass
class Cockpit:
    """A stack with the model of its agent, and a browser in which the operator is signed in."""

    stack: EmbeddedStack
    model: StreamingModel
    browser: Browser
    context: BrowserContext
    tab: WebTab
    user: ConsoleUser
    """The operator at the same conversation, without a browser."""

    @property
    def page(self) -> Page:
        return self.tab.page

    async def open(self, *parts: str) -> None:
        """Open a page of the application, such as `("log", "ses_1")`."""
        await self.page.goto(f"{self.stack.url}/web/#/{'/'.join(parts)}")

    async def ask(self, text: str) -> StreamedCall:
        """Send the agent a message; return the model's call, to be answered."""
        await self.user.says(text)
        return await self.model.next_call()

    async def check(self, name: str) -> None:
        """Check the open page: what broke out, its width on a phone, serious findings of axe.

        axe takes most of the time of these tests, so `make test` asks it once for each of `LOOKS`: in the
        dark, on a phone.
        """
        await self.tab.check()
        size = self.page.viewport_size
        assert size is not None
        if EVERY_LOOK:
            await self.tab.check_access()
        await self.tab.shoot(f"{name}-light")
        await self.page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        await self.tab.shoot(f"{name}-dark")
        await self.page.set_viewport_size(PHONE)
        await self.tab.check_width()
        if EVERY_LOOK or name in LOOKS:
            await self.tab.check_access()
        await self.tab.shoot(f"{name}-phone")
        await self.page.set_viewport_size(size)
        await self.page.emulate_media(color_scheme="light", reduced_motion="reduce")


@contextlib.asynccontextmanager
async def running_cockpit(
    edit: Callable[[dict[str, Any]], None] | None = None,
    flags: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[Cockpit]:
    """Start a stack with a scripted model and sign the operator in.

    `edit` changes its config.json; `flags` are those of Chromium, `env` is that of the stack.
    """
    async with run_streaming() as model, running_chromium(*flags) as browser:

        def prepare(home: Path) -> None:
            path = home / "config.json"
            config: dict[str, Any] = json.loads(path.read_text())
            config["models"] = {"default": {"model": "m", "endpoint": model.endpoint}}
            config["summary_timeout_ms"] = 0
            if edit is not None:
                edit(config)
            path.write_text(json.dumps(config, indent=2))

        async with (
            running_stack_in_thread(env=env, prepare=prepare) as stack,
            console_user(stack.endpoint) as user,
        ):
            context = await open_context(browser)
            link = (await asyncio.to_thread(stack.run, "web")).strip()
            tab = await open_tab(context, link)
            await tab.shows(tab.page.get_by_label("Write a message"))
            yield Cockpit(stack, model, browser, context, tab, user)


def use_tools(call: StreamedCall, *calls: tuple[str, Mapping[str, Any]]) -> None:
    """Answer a model's call with tool calls."""
    for number, (name, arguments) in enumerate(calls):
        function = {"name": name.replace(".", "_"), "arguments": json.dumps(arguments)}
        identity = {"id": f"call_{id(call)}_{number}", "type": "function"}
        delta = {"tool_calls": [{"index": number, **identity, "function": function}]}
        call.write({"choices": [{"index": 0, "delta": delta}]})
    call.write({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    call.end()


async def ask(cockpit: Cockpit, text: str) -> StreamedCall:
    """Send a message; return the model's call for it, and answer reports that come before it."""
    await cockpit.user.says(text)
    while True:
        call = await cockpit.model.next_call()
        if text in json.dumps(call.body["messages"]):
            return call
        call.end("Done.")
