"""Hooks of programs, and triggers: watched folders and mail that start work."""

from choir_client import operations
from choir_client._async.connection import AsyncConnection
from choir_common.wire.triggers import (
    DeliveryView,
    HookTest,
    HookTestResult,
    HookView,
    TriggerView,
)

HookList = list[HookView]
TriggerList = list[TriggerView]
DeliveryList = list[DeliveryView]


class AsyncHooks:
    """The hooks of a Choir."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list(self) -> HookList:
        """Return the hooks of config.json with their state."""
        return (await self._connection.call(operations.LIST_HOOKS)).items

    async def test(self, hook: str, request: HookTest) -> HookTestResult:
        """Return what the agent would read of a body; send it with `send`. Raises NotFound."""
        return await self._connection.call(operations.TEST_HOOK, {"name": hook}, body=request)

    async def deliveries(self, hook: str, limit: int = 20) -> DeliveryList:
        """Return what arrived through a hook, the newest first. Raises NotFound."""
        params = {"limit": str(limit)}
        page = await self._connection.call(
            operations.LIST_HOOK_DELIVERIES, {"name": hook}, params=params
        )
        return page.items


class AsyncTriggers:
    """The triggers of a Choir."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list(self) -> TriggerList:
        """Return the triggers of config.json with their state."""
        return (await self._connection.call(operations.LIST_TRIGGERS)).items

    async def deliveries(self, trigger: str, limit: int = 20) -> DeliveryList:
        """Return what a trigger gave to its agent, the newest first. Raises NotFound."""
        params = {"limit": str(limit)}
        page = await self._connection.call(
            operations.LIST_TRIGGER_DELIVERIES, {"name": trigger}, params=params
        )
        return page.items
