"""Fixtures of the browser's security tests: Chromium behind the real guard, a site and a trap."""

import contextlib
import shutil
from collections.abc import AsyncIterator

import pytest

from choir_browser.app import open_contexts
from choir_browser.contexts.browser_contexts import BrowserContexts
from choir_browser.settings import BrowserSettings
from choir_common.clock import SystemClock
from choir_common.egress.addresses import parse_allowlist
from choir_common.egress.dialer import Dialer
from tests.security.browser.visiting import FlippingResolver, MakeRooms
from tests.security.browser.web import Site, Trap, open_site, open_trap


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        yield opened


@pytest.fixture
async def trap() -> AsyncIterator[Trap]:
    async with open_trap() as opened:
        yield opened


@pytest.fixture(scope="module")
def resolver() -> FlippingResolver:
    return FlippingResolver()


@pytest.fixture(scope="module")
def make_rooms(resolver: FlippingResolver) -> MakeRooms:
    if shutil.which("chromium") is None:
        pytest.skip("CHROMIUM IS NOT INSTALLED: the guard is not tested against a real browser")

    @contextlib.asynccontextmanager
    async def make(allow: str, **limits: float) -> AsyncIterator[BrowserContexts]:
        dialler = Dialer(parse_allowlist(allow, "CHOIR_BROWSER_ALLOW"), resolver)
        settings = BrowserSettings.model_validate({f"browser_{k}": v for k, v in limits.items()})
        async with open_contexts(settings, dialler, SystemClock()) as (rooms, _):
            yield rooms

    return make
