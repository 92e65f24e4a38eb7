"""Planning of the config.json entries that are added with a new agent, or removed with a deleted one.

Pure; used by `agent init` and `agent delete`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import Conflict, InvalidRequest
from choir_common.i18n import _
from choir_common.ids import RESERVED_AGENT_IDS
from choir_common.wire.config import Config

ConfigEntry = tuple[str, str, dict[str, object]]
"""A section of config.json, a name in it, and its value."""
DEFAULT_MODEL = "default"


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The options of `agent init`; an empty one means a default, or none."""

    repo: str = ""
    ref: str = "main"
    workspace: str = ""
    llm: str = ""
    dm: str = ""
    others: Mapping[str, str] | None = None
    """Voice, git identity, Notion integration and mail account, by their keys in the agent's defaults."""


def entries_to_add(
    config: Config, home: Path, agent: str, options: AgentOptions
) -> list[ConfigEntry]:
    """Return the entries to add for an agent that can be started, its own entry last.

    By default it gets a new workspace, a new DM on the console, and the model that other agents use. Raises
    InvalidRequest for a name that is not in config.json, Conflict if the agent id is taken.
    """
    if agent in RESERVED_AGENT_IDS:
        raise Conflict(
            _("The name {agent} is reserved by Choir; choose another.").format(agent=agent)
        )
    if agent in config.agents:
        raise Conflict(
            _("config.json has agents.{agent} already; nothing was changed.").format(agent=agent)
        )
    entries: list[ConfigEntry] = []
    if options.workspace:
        workspace = _check_exists(_("workspace"), options.workspace, config.workspaces)
    else:
        workspace = _free_name(agent, config.workspaces)
        entries.append(("workspaces", workspace, {"path": str(home / "workspaces" / workspace)}))
    if options.dm:
        dm = _check_exists("DM", options.dm, config.dms)
    else:
        dm = _free_name(agent, config.dms)
        entries += _console_dm(config, agent, dm)
    llm = (
        _check_exists(_("model"), options.llm, {DEFAULT_MODEL, *config.models})
        if options.llm
        else ""
    )
    other_defaults = {name: value for name, value in (options.others or {}).items() if value}
    defaults = {"workspace": workspace, "llm": llm or _usual_model(config), "dm": dm}
    own: dict[str, object] = {"defaults": defaults | other_defaults}
    if options.repo:
        own["repo"] = {"url": options.repo, "ref": options.ref}
    return [*entries, ("agents", agent, own)]


def _console_dm(config: Config, agent: str, dm: str) -> list[ConfigEntry]:
    """Return a DM on the console, preceded by a console gateway if there is none."""
    gateways = [name for name, it in config.gateways.items() if it.channel.uses_choir_api]
    gateway = gateways[0] if gateways else _free_name("console", config.gateways)
    user = _free_name(f"operator-{agent}", {it.user_id or "" for it in config.dms.values()})
    entry: ConfigEntry = ("dms", dm, {"gateway": gateway, "user_id": user, "admin": True})
    return [entry] if gateways else [("gateways", gateway, {"type": "console"}), entry]


def entries_to_remove(config: Config, agent: str) -> list[tuple[str, str]]:
    """Return the section and name of each entry to remove with this agent, its own entry last.

    Includes a workspace or DM only if it has the agent's name (`agent init` made it) and no other agent uses
    it.
    """
    own = config.agents[agent].defaults
    others = [it.defaults for name, it in config.agents.items() if name != agent]
    removable = []
    if own.workspace == agent and all(it.workspace != agent for it in others):
        removable.append(("workspaces", agent))
    if own.dm == agent and all(it.dm != agent for it in others):
        removable.append(("dms", agent))
    return [it for it in removable if it[1] in getattr(config, it[0])] + [("agents", agent)]


def _usual_model(config: Config) -> str:
    """Return the model for a new agent: `default` if possible, else the one that another agent uses."""
    llms = [it.defaults.llm for it in config.agents.values()]
    if DEFAULT_MODEL in config.models or DEFAULT_MODEL in llms or not config.models:
        return DEFAULT_MODEL
    return llms[0] if llms else next(iter(config.models))


def _check_exists(kind: str, name: str, existing_names: Collection[str]) -> str:
    if name not in existing_names:
        names = ", ".join(sorted(existing_names)) or _("none")
        raise InvalidRequest(
            _("config.json has no {kind} {name!r}; it has: {names}.").format(
                kind=kind, name=name, names=names
            )
        )
    return name


def _free_name(preferred: str, existing_names: Collection[str]) -> str:
    """Return the preferred name, with a number appended if it is taken."""
    names = [preferred, *(f"{preferred}_{number}" for number in range(2, len(existing_names) + 3))]
    return next(name for name in names if name not in existing_names)
