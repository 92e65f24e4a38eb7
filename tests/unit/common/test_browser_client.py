"""The browser service where it is a choice of the operator: its absence is named, and is no failure."""

from typing import Any, NoReturn, cast

import pytest

from choir_common.bus.client import Bus
from choir_common.clients.browser import NatsBrowserClient
from choir_common.errors import NotRunning, Unavailable
from choir_common.wire.browser import BrowseRequest


class SilentBus:
    """A bus on which nobody responds."""

    async def request(self, *_: Any) -> NoReturn:
        raise NotRunning("Browser is not running right now; it may be restarting.")


async def test_an_optional_browser_that_does_not_run_is_no_failure() -> None:
    bus = cast(Bus, SilentBus())
    with pytest.raises(NotRunning, match="restarting"):
        await NatsBrowserClient(bus).status()
    status = await NatsBrowserClient(bus, optional=True).status()
    assert status.ok and "--profile browser" in status.detail
    with pytest.raises(Unavailable, match="--profile browser"):
        await NatsBrowserClient(bus, optional=True).browse(
            BrowseRequest.model_construct(timeout_ms=1)
        )
