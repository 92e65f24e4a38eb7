"""The entries of config.json for a new bot and its person. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from choir_common.wire.config import Config
from choir_common.wire.config_secrets import secret_references
from choir_common.wire.model import JsonObject
from choir_common.wire.telegram import ConnectTelegram, bot_id

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
    config: Config, names: EntryNames, request: ConnectTelegram, user_id: str
) -> JsonObject:
    """Return the merge patch of config.json that adds the bot and its user: a person, or an admin."""
    own_api: JsonObject = {"api_url": request.api_url} if request.api_url else {}
    rights: JsonObject = {} if request.person else {"admin": True}
    return {
        "gateways": {names.gateway: {"type": CHANNEL_TYPE, "secret": names.secret, **own_api}},
        "dms": {names.dm: {"gateway": names.gateway, "user_id": user_id, **rights}},
        "agents": {request.agent_id: {"defaults": {"dm": names.dm}}},
        **_people_patch(config, names, request.person, user_id),
    }


def _people_patch(
    config: Config, names: EntryNames, person: str | None, user_id: str
) -> JsonObject:
    if person is None:
        return {}
    # a merge patch replaces a list
    identities: list[JsonValue] = [
        *(it.model_dump(mode="json") for it in config.people[person].identities),
        {"gateway": names.gateway, "user": user_id},
    ]
    return {"people": {person: {"identities": identities}}}


def find_gateway_of(config: Config, secret_values: Mapping[str, str], token: str) -> str | None:
    """Return the gateway that uses this bot already, or None."""
    for name, gateway in config.gateways.items():
        if gateway.secret and bot_id(secret_values.get(gateway.secret, "")) == bot_id(token):
            return name
    return None


def _free_name(preferred: str, existing_names: Collection[str]) -> str:
    names = [preferred, *(f"{preferred}-{number}" for number in range(2, len(existing_names) + 3))]
    return next(name for name in names if name not in existing_names)
