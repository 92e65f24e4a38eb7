"""Fake Discord for tests: REST API v10 and gateway over real HTTP and WebSocket, with scriptable users.

Follows https://docs.discord.com/developers and refuses what they refuse. It never contacts
discord.com and imports no Discord library, so that it is an independent test of ours.
"""

from choir_testing.discord.accounts import FakeBot, FakeMessage, GuildMember
from choir_testing.discord.faults import (
    Delay,
    DisconnectAfter,
    DisconnectBefore,
    ErrorResponse,
    NoFault,
    TooManyRequests,
)
from choir_testing.discord.guild import FakeGuild, FakeGuildChannel
from choir_testing.discord.server import FakeDiscord, run_fake_discord
from choir_testing.discord.user import FakeDiscordUser

__all__ = [
    "Delay",
    "DisconnectAfter",
    "DisconnectBefore",
    "ErrorResponse",
    "FakeBot",
    "FakeDiscord",
    "FakeDiscordUser",
    "FakeGuild",
    "FakeGuildChannel",
    "FakeMessage",
    "GuildMember",
    "NoFault",
    "TooManyRequests",
    "run_fake_discord",
]
