"""Responses to presses of buttons. Called by `receiver`."""

import discord
import structlog

from choir_gateway.channels.discord.api_call import NETWORK_ERRORS
from choir_gateway.channels.discord.client import DiscordClient

log = structlog.get_logger("choir.gateway.discord")

# Discord's types and flags of responses to interactions.
DEFERRED_UPDATE = 6
EPHEMERAL = 1 << 6
NO_MENTIONS: dict[str, list[str]] = {"parse": []}


class PressAnswerer:
    """Sender of the responses to presses; a failure does not change the decision."""

    def __init__(self, client: DiscordClient, gateway: str) -> None:
        self._client = client
        self._gateway = gateway

    async def confirm(self, interaction: discord.Interaction) -> None:
        """Tell Discord that the press has arrived, so that it shows no failure."""
        try:
            await self._client.call(
                "POST",
                "/interactions/{interaction_id}/{webhook_token}/callback",
                {"type": DEFERRED_UPDATE},
                interaction_id=str(interaction.id),
                webhook_token=interaction.token,
            )
        except NETWORK_ERRORS as error:
            log.info("press not confirmed", gateway=self._gateway, error=type(error).__name__)

    async def answer(self, interaction: discord.Interaction, text: str) -> None:
        """Show the user who pressed a short text; control edits the message through its outbox."""
        try:
            await self._client.call(
                "POST",
                "/webhooks/{webhook_id}/{webhook_token}",
                {"content": text, "flags": EPHEMERAL, "allowed_mentions": NO_MENTIONS},
                webhook_id=str(interaction.application_id),
                webhook_token=interaction.token,
            )
        except NETWORK_ERRORS as error:
            # The decision is visible in the conversation.
            log.info("press not answered", gateway=self._gateway, error=type(error).__name__)
