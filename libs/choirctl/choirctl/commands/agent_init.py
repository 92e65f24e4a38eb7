"""Command `choirctl agent init`: add an agent to config.json, and create its repository if requested.

Works on files of this machine; Choir need not run. Nothing is built or started.
"""

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from choir_common.errors import ChoirError, Conflict, InvalidRequest
from choir_common.i18n import _
from choir_common.ids import AGENT_ID_RULE, is_agent_id
from choir_common.target import Target
from choirctl.api.target import AsJson, Home, find_target
from choirctl.output.printing import print_json, stderr_console
from choirctl.start.agent_entries import AgentOptions, ConfigEntry, entries_to_add
from choirctl.start.background import agents_if_running
from choirctl.start.config_file import read_config
from choirctl.start.config_insert import insert_entries

GIT_S = 30.0
SKELETON = {
    "Dockerfile": "FROM choir-base\n# RUN apt-get update && apt-get install -y --no-install-recommends ...\n",
    "identity/SOUL.md": "# {agent}\n\nWho {agent} is when it talks: tone, habits, what it cares for.\n",
    "identity/SOUL-CORE.md": "# {agent} at work\n\nHow {agent} works on its own: how careful, how far.\n",
    "tools/.gitkeep": "",
    "skills/.gitkeep": "",
}
PURPOSES = {
    "Dockerfile": _("begins with `FROM choir-base`; further system packages"),
    "identity/SOUL.md": _("who it is when it talks"),
    "identity/SOUL-CORE.md": _("how it works on its own"),
}


def init(
    ctx: typer.Context,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The new agent's id.")],
    repo: Annotated[
        str,
        typer.Option(help="Its repository: an address, or a local path where one is created."),
    ] = "",
    ref: Annotated[str, typer.Option(help="The branch to follow.")] = "main",
    workspace: Annotated[str, typer.Option(help="Workspace, by name; by default a new one.")] = "",
    llm: Annotated[
        str, typer.Option(help="Model, by name; by default the one that other agents use.")
    ] = "",
    dm: Annotated[str, typer.Option(help="DM of the agent, by name; by default a new one.")] = "",
    voice_profile: Annotated[str, typer.Option(help="Voice, by name; optional.")] = "",
    git_identity: Annotated[
        str, typer.Option(help="Who it is in git, by name; may stay empty.")
    ] = "",
    notion: Annotated[str, typer.Option(help="Notion integration; may stay empty.")] = "",
    email: Annotated[str, typer.Option(help="Mail account, by name; may stay empty.")] = "",
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Add an agent to config.json that can be started.

    It gets its own workspace and its own conversation on the console, unless you name others. If --repo is
    a local path, creates the repository with a first commit. Nothing is built or started.
    """
    _require_agent_id(agent)
    place = find_target(ctx, home, None)
    file = place.home / "config.json"
    local = _local_path(repo)
    if local is not None and local.exists():
        raise Conflict(_("{local} already exists; nothing was changed.").format(local=local))
    others = {"voice_profile": voice_profile, "git_identity": git_identity}
    others |= {"notion": notion, "email": email}
    address = str(local) if local else repo
    options = AgentOptions(address, ref, workspace=workspace, llm=llm, dm=dm, others=others)
    entries = entries_to_add(read_config(file), place.home, agent, options)
    insert_entries(file, entries)
    if local is not None:
        _create_repository(local, agent, ref)
    if as_json:
        keys = [f"{section}.{name}" for section, name, _ in entries]
        print_json({"agent_id": agent, "config": str(file), "made": keys, "entry": entries[-1][2]})
    else:
        _tell(place, agent, file, entries, local, repo)


def _require_agent_id(agent: str) -> None:
    if not is_agent_id(agent):
        raise InvalidRequest(
            _("{agent!r} is not a valid agent id: {agent_id_rule}.").format(
                agent=agent, agent_id_rule=AGENT_ID_RULE
            )
        )


def _tell(
    place: Target, agent: str, file: Path, entries: list[ConfigEntry], local: Path | None, repo: str
) -> None:
    added = ", ".join(f"{section}.{name}" for section, name, _entry in reversed(entries))
    lines: list[str] = [_("Added to {file}: {added}.").format(file=file, added=added)]
    if local:
        lines.append(
            _("Created {local} with a first commit: clone it, edit identity/SOUL.md, push.").format(
                local=local
            )
        )
    elif repo:
        lines.append(_("Create {repo} with these files:").format(repo=repo))
        lines += [f"  {name:22} {_purpose(name)}" for name in SKELETON]
    else:
        lines.append(
            _(
                "Put tools, skills and identity in {agent_folder}: tools/, skills/, "
                "identity/SOUL.md. `choirctl agent update {agent}` checks and installs them."
            ).format(agent_folder=agent_folder(place.home, agent), agent=agent)
        )
    runs = asyncio.run(agents_if_running(place)) is not None
    first = ["choirctl config load", "choirctl config apply"] if runs else ["choirctl up --detach"]
    build = [f"choirctl agent build {agent}"] if repo else []
    start = [f"choirctl agent start {agent}", f"choirctl chat --agent {agent}"]
    lines.append(_("Then: {commands}.").format(commands=", ".join([*first, *build, *start])))
    for line in lines:
        stderr_console().print(line, markup=False, highlight=False)


def agent_folder(home: Path, agent: str) -> Path:
    """Return the folder for the tools, skills and identity of an agent without a repository."""
    return home / "agents" / agent


def _purpose(name: str) -> str:
    return PURPOSES.get(name, _("empty: git keeps no empty directories"))


def _local_path(repo: str) -> Path | None:
    """Return the local path of a repository address, or None if it is remote."""
    if repo.startswith("file://"):
        return Path(urlsplit(repo).path)
    return Path(repo).expanduser().absolute() if repo.startswith(("/", "~", "./", "../")) else None


def _create_repository(path: Path, agent: str, ref: str) -> None:
    """Create a bare repository with a first commit on branch `ref`."""
    path.mkdir(mode=0o700, parents=True)
    _git(path, "init", "--quiet", "--bare", "--template=", f"--initial-branch={ref}")
    lines = ""
    for name, text in SKELETON.items():
        blob = _git(path, "hash-object", "-w", "--stdin", stdin=text.replace("{agent}", agent))
        lines += f"100644 {blob}\t{name}\n"
    _git(path, "update-index", "--add", "--index-info", stdin=lines)
    tree = _git(path, "write-tree")
    commit = _git(path, "commit-tree", tree, "-m", f"Begin {agent}")
    _git(path, "update-ref", f"refs/heads/{ref}", commit)
    (path / "index").unlink(missing_ok=True)


def _git(path: Path, *words: str, stdin: str = "") -> str:
    names = ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL")
    identity = {name: "choirctl" if "NAME" in name else "choirctl@localhost" for name in names}
    # the user's git configuration must not affect the result (signing, hooks, templates)
    clean = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent"}
    try:
        process = subprocess.run(
            ["git", f"--git-dir={path}", *words],
            input=stdin,
            capture_output=True,
            text=True,
            check=True,
            timeout=GIT_S,
            env={"PATH": os.defpath, **identity, **clean},
        )
    except (OSError, subprocess.SubprocessError) as error:
        detail = str(getattr(error, "stderr", None) or error).strip()
        raise ChoirError(
            _("Cannot make the repository {path}: {detail}").format(path=path, detail=detail)
        ) from error
    return process.stdout.strip()
