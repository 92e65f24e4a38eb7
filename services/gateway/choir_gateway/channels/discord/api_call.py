"""Execution of API calls that send something: deadline, and the interpretation of errors."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import discord

from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.i18n import _
from choir_gateway.channels.file_transfer import RefusedError

# Discord's codes of errors: https://docs.discord.com/developers/topics/opcodes-and-status-codes
UNKNOWN_CHANNEL = 10003
UNKNOWN_USER = 10013
INVALID_RECIPIENT = 50033
TOO_LARGE = 40005
MISSING_ACCESS = 50001
CANNOT_SEND_TO_USER = 50007
USER_ERRORS = frozenset(
    {UNKNOWN_CHANNEL, UNKNOWN_USER, INVALID_RECIPIENT, MISSING_ACCESS, CANNOT_SEND_TO_USER}
)

BLOCKED_TEXT = _(
    "Discord does not let the bot write to this user. The user must share a server with the "
    "bot and allow direct messages from its members, or add the bot to the account, and must "
    "not have blocked it."
)
BAD_LOGIN_TEXT = _(
    "Discord refuses the bot's token. Reset it in the Discord Developer Portal (Bot > Reset "
    "Token), then `choirctl secret set` it and `choirctl secret apply`."
)
NO_CONTENT_TEXT = (
    "Discord refuses the bot the text of all messages. Switch on the Message Content Intent in the Discord "
    'Developer Portal (Bot), or remove "answers": "all" from its groups.'
)
NETWORK_ERRORS = (discord.DiscordException, aiohttp.ClientError, OSError)
"""What the library raises for a call or a connection that failed."""
# Of a ban by Discord's proxy, which names no time.
BAN_PAUSE_S = 60.0

ApiCall = Callable[[], Awaitable[Any]]


class DiscordRefusedError(RefusedError):
    """A permanent refusal by Discord, with its error code."""

    def __init__(self, text: str, *, code: int = 0, blocks_user: bool = False) -> None:
        super().__init__(text, blocks_user=blocks_user)
        self.code = code


async def call_discord(call: ApiCall, deadline: float) -> Any:
    """Make a call and return its JSON.

    Raises DiscordRefusedError, Unavailable if certainly nothing was sent, OutcomeUnknown if something may
    have been. `deadline` is in the event loop's time.
    """
    try:
        async with asyncio.timeout_at(deadline):
            return await call()
    except TimeoutError:
        raise OutcomeUnknown(_("Discord did not respond in time.")) from None
    except discord.RateLimited as error:
        raise Unavailable(
            _("Discord limits the rate."), retry_after_s=float(error.retry_after)
        ) from error
    except discord.DiscordServerError as error:
        raise OutcomeUnknown(
            _("Discord failed with status {status}.").format(status=error.status)
        ) from error
    except discord.HTTPException as error:
        raise _refusal(error) from error
    except aiohttp.ClientConnectorError as error:
        raise Unavailable(_("Discord cannot be reached; nothing was sent.")) from error
    except (aiohttp.ClientError, OSError) as error:
        raise OutcomeUnknown(_("The connection to Discord broke while sending.")) from error


def _refusal(error: discord.HTTPException) -> Exception:
    if error.status == 401:
        # The operator can correct the token, and the message waits for that.
        return Unavailable(BAD_LOGIN_TEXT)
    if error.status == 429:
        return Unavailable(_("Discord limits the rate."), retry_after_s=BAN_PAUSE_S)
    if error.code == TOO_LARGE or error.status == 413:
        return DiscordRefusedError(_("it is larger than Discord allows"), code=error.code)
    if error.code == CANNOT_SEND_TO_USER:
        return DiscordRefusedError(BLOCKED_TEXT, code=error.code, blocks_user=True)
    return DiscordRefusedError(
        _("Discord refuses: {text}").format(text=error.text),
        code=error.code,
        blocks_user=error.code in USER_ERRORS,
    )


def describe_error(error: Exception) -> str:
    """Return the reason why no messages arrive, as a text for operators."""
    match error:
        case discord.LoginFailure() | discord.HTTPException(status=401):
            return BAD_LOGIN_TEXT
        case discord.ConnectionClosed(code=4004):
            return BAD_LOGIN_TEXT
        case discord.ConnectionClosed(code=4014):
            return NO_CONTENT_TEXT
        case discord.ConnectionClosed():
            return f"Discord closed the connection with code {error.code}."
        case discord.HTTPException():
            return f"Discord returned status {error.status}."
        case _:
            return f"Discord cannot be reached ({type(error).__name__})."
