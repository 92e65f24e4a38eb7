"""What counts as a transfer of a browser, and for how long."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from fastapi import Request

from choir_common.errors import RateLimited
from choir_control.api.operator.authentication import (
    Caller,
    ConversationAccess,
    until_signed_out,
)
from choir_control.api.operator.browser_streams import MAX_TRANSFERS, BrowserLimits
from choir_control.api.operator.system import TransferredFile
from choir_control.web.service import WebSessionService
from choir_control.web.store import WebSession

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class SignedIn:
    """Sessions that are all valid."""

    def is_valid(self, _: WebSession) -> bool:
        return True


@pytest.fixture
def browser() -> Iterator[ConversationAccess]:
    """The access of an operator's browser whose transfers but one are under way."""
    session = WebSession("web_1", None, "a browser", NOW, NOW, NOW)
    access = ConversationAccess(
        Caller(session), cast(WebSessionService, SignedIn()), BrowserLimits()
    )
    with contextlib.ExitStack() as stack:
        for _ in range(MAX_TRANSFERS - 1):
            stack.enter_context(access.admit_transfer())
        yield access


async def pages() -> AsyncGenerator[bytes, None]:
    yield b"one"
    yield b"two"


async def test_an_export_counts_until_its_end(browser: ConversationAccess) -> None:
    request = Request({"type": "http", "state": {"access": browser}})
    export = cast(AsyncGenerator[bytes, None], until_signed_out(request, pages(), is_file=True))
    assert await anext(export) == b"one"
    with pytest.raises(RateLimited, match="files at the same time"):
        browser.admit_transfer()
    await export.aclose()
    browser.admit_transfer()


async def test_a_file_of_a_message_counts_while_it_is_sent(
    browser: ConversationAccess, tmp_path: Path
) -> None:
    sent: list[bytes] = []
    (tmp_path / "a").write_bytes(b"content")
    response = TransferredFile(tmp_path / "a", browser.admit_transfer())

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))
        with pytest.raises(RateLimited):
            browser.admit_transfer()

    async def receive() -> Any:
        await asyncio.Event().wait()  # the client stays

    await response({"type": "http", "method": "GET", "headers": []}, receive, send)
    assert b"".join(sent) == b"content"
    browser.admit_transfer()
