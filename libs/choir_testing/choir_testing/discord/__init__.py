"""Fake Discord for tests: REST API v10 and gateway over real HTTP and WebSocket, with scriptable users.

Follows https://docs.discord.com/developers and refuses what they refuse. Direct messages only. It never
contacts discord.com and imports no Discord library, so that it is an independent test of ours.
"""

from choir_testing.discord.accounts import FakeBot, FakeMessage
from choir_testing.discord.faults import (
    Delay,
    DisconnectAfter,
    DisconnectBefore,
    ErrorResponse,
    NoFault,
    TooManyRequests,
)
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
    "FakeMessage",
    "NoFault",
    "TooManyRequests",
    "run_fake_discord",
]
