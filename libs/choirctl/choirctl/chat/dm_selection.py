"""Selection of the conversation (DM) for a chat on this terminal. Used by `chat` and `up`.

Only DMs of a console gateway can be used from a terminal; those of a Telegram bot are on a user's phone.
"""

from collections.abc import Sequence

from choir_common.errors import Conflict, NotFound
from choir_common.i18n import _, join
from choir_common.wire.api_clients import is_client_dm
from choir_common.wire.operator import DmView
from choirctl.api.control import ControlClient
from choirctl.output.state_words import state_text
from choirctl.output.views import agent_channel

DEFAULT_DM = "console"


async def select_dm(api: ControlClient, agent: str | None = None, dm: str | None = None) -> str:
    """Return the DM for a chat: the named one, the agent's, or one in which an agent answers.

    Raises NotFound for an unknown name, Conflict if no suitable DM is on the console.
    """
    dms = await api.dms()
    if dm is not None:
        return _check_named(dms, dm)
    if agent is None:
        return default_dm(dms)
    view = await api.agents.get(agent)
    if view.bindings is None:
        raise Conflict(
            _(
                "Agent {agent} is {state}, so it has no DM to talk in. Start it with `choirctl "
                "agent start {agent}`."
            ).format(agent=agent, state=state_text(view.state))
        )
    agent_dm = _find(dms, view.bindings.dm)
    if agent_dm is not None and not agent_dm.channel.uses_choir_api:
        raise Conflict(
            _("{agent_channel}, not on this terminal. {console_advice}").format(
                agent_channel=agent_channel(agent_dm), console_advice=_console_advice(dms, agent)
            )
        )
    return view.bindings.dm


def default_dm(dms: Sequence[DmView]) -> str:
    """Return the DM for a chat without options.

    Prefers a DM with a running agent, then one whose agent is stopped; among equals `console`, then by name,
    programs' conversations last.
    Raises Conflict if there is none; the message lists where agents can be reached.
    """
    candidates = [it for it in dms if it.channel.uses_choir_api and it.agent_id is not None]
    candidates.sort(
        key=lambda it: (not it.bound, it.name != DEFAULT_DM, is_client_dm(it.name), it.name)
    )
    if candidates:
        return candidates[0].name
    elsewhere = [it for it in dms if it.agent_id is not None]
    if not elsewhere:
        raise Conflict(
            _(
                "No agent has a DM to talk in. `choirctl agent list` shows the agents there are, "
                "and `choirctl agent init NAME` adds one."
            )
        )
    channels = join("; ", map(agent_channel, elsewhere))
    raise Conflict(
        _("No agent talks on this terminal: {channels}. {console_advice}").format(
            channels=channels, console_advice=_console_advice(dms, str(elsewhere[0].agent_id))
        )
    )


def _check_named(dms: Sequence[DmView], name: str) -> str:
    view = _find(dms, name)
    console_names = ", ".join(it.name for it in dms if it.channel.uses_choir_api) or _("none")
    if view is None:
        raise NotFound(
            _("There is no DM {name!r} in config.json. On the console: {console_names}.").format(
                name=name, console_names=console_names
            )
        )
    if not view.channel.uses_choir_api:
        raise Conflict(
            _(
                "The DM {name} is on {label} and cannot be used from this terminal. On the "
                "console: {console_names}."
            ).format(name=name, label=view.channel.label, console_names=console_names)
        )
    return name


def _find(dms: Sequence[DmView], name: str) -> DmView | None:
    return next((it for it in dms if it.name == name), None)


def _console_advice(dms: Sequence[DmView], agent: str) -> str:
    """Return advice on how to reach an agent of another channel on this terminal."""
    free = [it.name for it in dms if it.channel.uses_choir_api and not it.bound]
    free.sort(key=lambda name: (name != DEFAULT_DM, name))
    if not free:
        return _("`choirctl agent init NAME` adds an agent that talks here.")
    return _(
        "Write to it there, or have it talk here: `choirctl agent stop {agent}`, then "
        "`choirctl agent start {agent} --dm {free}`."
    ).format(agent=agent, free=free[0])
