"""Acceptance of messages that come from the console through control's own endpoint."""

import asyncio

from choir_common.errors import NotFound
from choir_common.http.console_messages import ConsoleMessage
from choir_common.i18n import _
from choir_common.wire.messages import InboundAccepted
from choir_control.configuration.current import ConfigService, ConfigSnapshot
from choir_control.conversations.inbox.service import InboxService

MAX_CONCURRENT = 64
"""As many as a NATS endpoint accepts at a time; others wait, so that heartbeats find free connections."""


class ConsoleInbox:
    """Inbox of the conversations at the console."""

    def __init__(self, inbox: InboxService, configuration: ConfigService) -> None:
        self._inbox = inbox
        self._configuration = configuration
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)

    async def accept(self, dm: str, message: ConsoleMessage) -> InboundAccepted:
        """Store a message without files; it is durable when this returns.

        Raises NotFound for a DM of another channel: those must not be reachable over the console's routes.
        """
        gateway = _console_of(self._configuration.current, dm)
        async with self._slots:
            return await self._inbox.accept(message.to_inbound(gateway, dm))


def _console_of(snapshot: ConfigSnapshot, dm: str) -> str:
    gateway = snapshot.gateway_of(dm)
    if gateway is None:
        names = ", ".join(sorted(snapshot.config.dms)) or _("none")
        raise NotFound(
            _("There is no DM {dm!r}. Configured: {names}.").format(dm=dm[:64], names=names)
        )
    if not snapshot.config.gateways[gateway].channel.uses_choir_api:
        raise NotFound(_("The DM {dm!r} is not on a console gateway.").format(dm=dm))
    return gateway
