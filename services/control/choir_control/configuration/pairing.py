"""Conversations of paired users: how they become part of the configuration, and their names. Pure.

A paired user is a row of the database, approved by an admin. config.json takes precedence: a user or a
conversation that it names is not changed by a row.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from choir_common.i18n import _
from choir_common.wire.channel_config import DmConfig, GatewayConfig
from choir_common.wire.config import Config
from choir_common.wire.pairing import MAX_GATEWAY_NAME, may_be_paired, paired_dm
from choir_common.wire.people_config import PairedRole


@dataclass(frozen=True, slots=True)
class PairedUser:
    """A user whom an admin has given a conversation."""

    dm: str
    """The name of the conversation."""
    gateway: str
    user_id: str
    channel_type: str
    """The type of the gateway at that time; on another type the id would be somebody else's."""
    agent_id: str
    role: PairedRole
    user_name: str
    """The name that the user chose; it proves nothing."""
    approved_by: str
    approved_at: datetime


def is_same_user(gateway: GatewayConfig, first: str | None, second: str | None) -> bool:
    """Return whether two ids are one user's; mail servers do not distinguish upper and lower case."""
    if gateway.channel.needs_mailbox:
        return (first or "").casefold() == (second or "").casefold()
    return first == second


def is_configured(config: Config, gateway: str, user_id: str) -> bool:
    """Return whether a user of a gateway that exists has a conversation."""
    channel = config.gateways[gateway]
    return any(
        dm.gateway == gateway and is_same_user(channel, dm.user_id, user_id)
        for dm in config.dms.values()
    )


def add_paired(
    config: Config, users: Iterable[PairedUser]
) -> tuple[Config, Mapping[str, PairedUser]]:
    """Return the configuration with the conversations of paired users, and those that were added, by name."""
    added = {
        user.dm: user
        for user in sorted(users, key=lambda user: user.dm)
        if user.dm not in config.dms
        and user.agent_id in config.agents
        and user.gateway in config.gateways
        and not is_configured(config, user.gateway, user.user_id)
        and config.gateways[user.gateway].type == user.channel_type
    }
    if not added:
        return config, {}
    dms = {dm: DmConfig(gateway=it.gateway, user_id=it.user_id) for dm, it in added.items()}
    agents = dict(config.agents)
    for user in added.values():
        agent = agents[user.agent_id]
        conversations = (*agent.conversations, user.dm)
        agents[user.agent_id] = agent.model_copy(update={"conversations": conversations})
    return config.model_copy(update={"dms": {**config.dms, **dms}, "agents": agents}), added


def find_pairing_faults(config: Config) -> Iterator[str]:
    """Yield every fault of `gateways.NAME.pairing`, with the path in the file and the remedy."""
    for name, gateway in config.gateways.items():
        if gateway.pairing is None:
            continue
        path = f"gateways.{name}.pairing"
        users = gateway.channel.paired_users
        if users is None:
            yield (
                _(
                    "{path}: {label} has no pairing: who connects has a key of yours already, and says who "
                    "its users are; name them in dms, and remove it"
                ).format(path=path, label=gateway.channel.label)
            )
            continue
        if len(name) > MAX_GATEWAY_NAME:
            yield _(
                "{path}: the name of the gateway has more than {max_gateway_name} characters"
            ).format(path=path, max_gateway_name=MAX_GATEWAY_NAME)
        if gateway.pairing.agent not in config.agents:
            names = ", ".join(sorted(config.agents)) or _("none")
            yield (
                _(
                    "{path}.agent: there is no {agent!r} in agents (it has {names}); correct the name or add "
                    "it"
                ).format(path=path, agent=gateway.pairing.agent, names=names)
            )
        for dm, user in config.dms.items():
            own = paired_dm(name, user.user_id or "") if user.gateway == name else None
            if dm != own and may_be_paired(dm, name, users):
                yield (
                    _(
                        "dms.{dm}: with {path} such names belong to users whom an admin lets in; choose "
                        "another"
                    ).format(dm=dm, path=path)
                )
