"""Command `choirctl agent delete`: remove an agent from config.json and list the data that stays.

Works on files of this machine; if Choir runs there, it is asked whether the agent runs.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from choir_common.errors import Conflict, InvalidRequest, NotFound
from choir_common.i18n import _, join
from choir_common.wire.config import Config
from choir_common.wire.operator import AgentView
from choirctl.api.target import AsJson, Home, find_target
from choirctl.arguments import AgentId
from choirctl.commands.agent_init import agent_folder
from choirctl.output.printing import confirm, print_json, stderr_console
from choirctl.output.state_words import state_text
from choirctl.start.agent_entries import entries_to_remove
from choirctl.start.background import agents_if_running
from choirctl.start.config_file import read_config
from choirctl.start.config_insert import remove_entries


def delete(
    ctx: typer.Context,
    agent: AgentId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Remove a stopped agent from config.json.

    Also removes the workspace and DM entries that were created for it. Its files, its memory and the logs
    of its sessions stay. Exits 5 if it runs.
    """
    place = find_target(ctx, home, None)
    file = place.home / "config.json"
    config = read_config(file)
    if agent not in config.agents:
        names = ", ".join(sorted(config.agents)) or _("none")
        raise NotFound(
            _("There is no agent {agent!r} in {file} (it has {names}).").format(
                agent=agent, file=file, names=names
            )
        )
    views = asyncio.run(agents_if_running(place))
    _refuse_running(views or [], agent)
    entries = entries_to_remove(config, agent)
    goes = [f"{section}.{name}" for section, name in reversed(entries)]
    stays = _remaining_data(place.home, config, agent)
    if not yes:
        _confirm(agent, goes, stays)
    remove_entries(file, entries)
    if as_json:
        print_json({"agent_id": agent, "config": str(file), "removed": goes, "stays": stays})
        return
    stderr_console().print(
        _("Removed from {file}: {names}.").format(file=file, names=", ".join(goes)),
        markup=False,
        highlight=False,
    )
    if views is not None:
        stderr_console().print(
            _("Apply it with choirctl config load, choirctl config apply."), markup=False
        )


def _refuse_running(views: Sequence[AgentView], agent: str) -> None:
    """Raise Conflict if the agent has a session: it runs, or will be resumed."""
    by_id = {view.agent_id: view for view in views}
    if agent in by_id and by_id[agent].session_id is not None:
        raise Conflict(
            _(
                "{agent} is {state}; nothing was changed. Stop it first: `choirctl agent stop "
                "{agent}`."
            ).format(agent=agent, state=state_text(by_id[agent].state))
        )


def _remaining_data(home: Path, config: Config, agent: str) -> list[str]:
    """Return phrases that name the data which stays after the agent is deleted."""
    own = config.agents[agent]
    workspace = config.workspaces.get(own.defaults.workspace)
    stays: list[str] = [_("the files in {path}").format(path=workspace.path)] if workspace else []
    stays += [_("its memory"), _("the logs of its sessions")]
    if own.repo.url:
        stays.append(_("its repository {url}").format(url=own.repo.url))
    elif agent_folder(home, agent).is_dir():
        stays.append(_("its folder {agent_folder}").format(agent_folder=agent_folder(home, agent)))
    return stays


def _confirm(agent: str, goes: list[str], stays: list[str]) -> None:
    """Ask for confirmation. Raises InvalidRequest without a terminal, typer.Abort if the user declines."""
    if not sys.stdin.isatty():
        raise InvalidRequest(
            _("No terminal to confirm the deletion of agent {agent}. Use --yes.").format(
                agent=agent
            )
        )
    stderr_console().print(
        _("This removes {names} from config.json.").format(names=", ".join(goes)),
        markup=False,
        highlight=False,
    )
    stderr_console().print(
        _("Not deleted: {names}.").format(names=join("; ", stays)), markup=False, highlight=False
    )
    confirm(_("Delete the agent {agent}?").format(agent=agent), abort=True)
