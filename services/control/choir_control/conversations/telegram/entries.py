"""The entries of config.json for a new bot and its person. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from choir_common.wire.config import Config, secret_references
from choir_common.wire.model import JsonObject
from choir_common.wire.telegram import bot_id

GATEWAY, DM, SECRET = "telegram", "phone", "telegram-token"
CHANNEL_TYPE = "telegram"


@dataclass(frozen=True, slots=True)
class EntryNames:
    """The names of the new gateway, DM and secret."""

    gateway: str
    dm: str
    secret: str


def choose_names(config: Config, stored_secrets: Mapping[str, str], token: str) -> EntryNames:
    """Return names that are free.

    The name of a secret is reused if it has a token of the same bot and nothing uses it: it is left from an
    attempt that a crash interrupted.
    """
    used = secret_references(config).keys()
    orphans = [
        name
        for name, value in stored_secrets.items()
        if name.startswith(SECRET) and name not in used and bot_id(value) == bot_id(token)
    ]
    return EntryNames(
        gateway=_free_name(GATEWAY, config.gateways),
        dm=_free_name(DM, config.dms),
        secret=min(orphans, default="") or _free_name(SECRET, {*stored_secrets, *used}),
    )


def make_patch(
    names: EntryNames, *, agent_id: str, user_id: str, api_url: str | None
) -> JsonObject:
    """Return the merge patch of config.json that adds the bot and its person, an admin."""
    own_api: JsonObject = {"api_url": api_url} if api_url else {}
    return {
        "gateways": {names.gateway: {"type": CHANNEL_TYPE, "secret": names.secret, **own_api}},
        "dms": {names.dm: {"gateway": names.gateway, "user_id": user_id, "admin": True}},
        "agents": {agent_id: {"defaults": {"dm": names.dm}}},
    }


def find_gateway_of(config: Config, secret_values: Mapping[str, str], token: str) -> str | None:
    """Return the gateway that uses this bot already, or None."""
    for name, gateway in config.gateways.items():
        if gateway.secret and bot_id(secret_values.get(gateway.secret, "")) == bot_id(token):
            return name
    return None


def _free_name(preferred: str, existing_names: Collection[str]) -> str:
    names = [preferred, *(f"{preferred}-{number}" for number in range(2, len(existing_names) + 3))]
    return next(name for name in names if name not in existing_names)
