"""Fixtures of the browser's security tests: Chromium behind the real guard, a site and a trap."""

import contextlib
import ipaddress
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager

import pytest

from choir_browser.app import open_rooms
from choir_browser.contexts.rooms import Rooms
from choir_browser.guard.addresses import Address
from choir_browser.guard.allowlist import parse_allowlist
from choir_browser.guard.resolve import Dialler, ask_system
from choir_browser.settings import BrowserSettings
from choir_common.clock import SystemClock
from tests.security.browser.web import Site, Trap, open_site, open_trap

FAR_AWAY = "93.184.215.14"


class FlippingResolver:
    """A name server under an attacker's control: each name gives its answers one after the other."""

    def __init__(self) -> None:
        self.names: dict[str, list[str]] = {}

    async def __call__(self, host: str, port: int) -> Sequence[Address]:
        answers = self.names.get(host)
        if answers is None:
            return await ask_system(host, port)
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return [ipaddress.ip_address(part) for part in answer.split()]


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        yield opened


@pytest.fixture
async def trap() -> AsyncIterator[Trap]:
    async with open_trap() as opened:
        yield opened


@pytest.fixture
def resolver() -> FlippingResolver:
    return FlippingResolver()


@pytest.fixture
def make_rooms(
    resolver: FlippingResolver,
) -> Callable[[str], AbstractAsyncContextManager[Rooms]]:
    if shutil.which("chromium") is None:
        pytest.skip("CHROMIUM IS NOT INSTALLED: the guard is not tested against a real browser")

    @contextlib.asynccontextmanager
    async def make(allow: str) -> AsyncIterator[Rooms]:
        dialler = Dialler(parse_allowlist(allow), resolver)
        async with open_rooms(BrowserSettings(), dialler, SystemClock()) as (rooms, _):
            yield rooms

    return make
