"""Commands `choirctl skill list|add|show|approve|remove`; see docs/skills.md."""

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from choir_common.errors import Conflict, InvalidRequest
from choir_common.i18n import _, join
from choir_common.skill_folders.folder import SkillFolder
from choir_common.skill_folders.scan import Finding, scan_folder
from choirctl.api.target import AsJson, Home, find_target
from choirctl.app import add_group
from choirctl.arguments import config_name_option
from choirctl.output.printing import (
    confirm,
    escape,
    print_json,
    print_rows,
    stderr_console,
    stdout_console,
    table,
)
from choirctl.output.skill_views import finding_lines, folder_lines
from choirctl.output.state_words import state_text
from choirctl.start.config_file import read_config
from choirctl.start.installed_skills import InstalledSkills
from choirctl.start.skill_source import fetch_skill

NOTHING = _("No skill folders; `choirctl skill add SOURCE` adds one.")

SkillName = Annotated[str, typer.Argument(metavar="NAME", help="The skill, by name.")]
Hash = Annotated[
    str,
    typer.Option(
        "--sha256", metavar="HASH", help="Approve without a question, if the files have this hash."
    ),
]
Agents = Annotated[
    list[str] | None,
    config_name_option(
        "--agent", "Who may use it; repeat it for several. Default: the only agent.", "agents"
    ),
]


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "skill",
        ("list", list_skills),
        ("add", add_skill),
        ("show", show_skill),
        ("approve", approve_skill),
        ("remove", remove_skill),
    )


def list_skills(ctx: typer.Context, home: Home = None, as_json: AsJson = False) -> None:
    """List skill folders and whether you approved them as they are."""
    skills = _installed(ctx, home).list_all()
    if as_json:
        print_json({"skills": [asdict(skill) for skill in skills]})
        return
    rows = table(_("SKILL"), _("AGENT"), _("STATE"), _("DESCRIPTION"))
    for skill in skills:
        rows.add_row(
            escape(skill.name),
            skill.agent,
            state_text(skill.state),
            escape(skill.note or skill.description),
        )
    print_rows(rows, NOTHING)


def add_skill(
    ctx: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A folder, a ZIP archive or a git address.")
    ],
    below: Annotated[
        str, typer.Option("--path", help="The skill's folder in the source, if it has several.")
    ] = "",
    agent: Agents = None,
    sha256: Hash = "",
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Add a folder with a SKILL.md, after you have read it.

    It is scanned and shown whole, with its scripts. Nothing is stored before your yes, which counts for
    exactly these files.
    """
    installed = _installed(ctx, home)
    folder = fetch_skill(source, below)
    agents = [*(agent or _only_agent(ctx, home))]
    installed.check_new(folder.name, agents)
    _decide(folder, sha256, as_json=as_json)
    installed.install(folder, agents)
    in_repository = [name for name in agents if installed.has_repository(name)]
    if as_json:
        print_json({"name": folder.name, "sha256": folder.sha256, "agents": agents})
        return
    _tell(
        _("Added the skill {name} for {names}.").format(name=folder.name, names=", ".join(agents))
    )
    if in_repository:
        _tell(
            _("Commit it as skills/{name}/ in the repository of {names}.").format(
                name=folder.name, names=", ".join(in_repository)
            )
        )
    _tell(_activation(agents))


def show_skill(
    ctx: typer.Context, name: SkillName, home: Home = None, as_json: AsJson = False
) -> None:
    """Show a skill folder whole, and what the scan finds in it."""
    installed = _installed(ctx, home)
    agents = installed.find_agents(name)
    folder = installed.read(agents[0], name)
    if as_json:
        print_json(_as_data(folder, scan_folder(folder)) | {"agents": agents})
        return
    _print_folder(folder)


def approve_skill(
    ctx: typer.Context,
    name: SkillName,
    sha256: Hash = "",
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Approve the present files of a skill, after reading them."""
    installed = _installed(ctx, home)
    agents = installed.find_agents(name)
    folders = [installed.read(agent, name) for agent in agents]
    if len({folder.sha256 for folder in folders}) != 1:
        raise Conflict(
            _("The files of {name} differ between {names}; make them equal.").format(
                name=name, names=", ".join(agents)
            )
        )
    if folders[0].name != name:
        raise InvalidRequest(
            _("SKILL.md names it {name!r}; name the folder like that.").format(name=folders[0].name)
        )
    _decide(folders[0], sha256, as_json=as_json)
    installed.pin(name, folders[0].sha256, agents)
    if as_json:
        print_json({"name": name, "sha256": folders[0].sha256, "agents": agents})
        return
    _tell(
        _("Approved the skill {name}. {activation}").format(
            name=name, activation=_activation(agents)
        )
    )


def remove_skill(
    ctx: typer.Context, name: SkillName, home: Home = None, as_json: AsJson = False
) -> None:
    """Remove a skill's approval and its files."""
    installed = _installed(ctx, home)
    agents = installed.find_agents(name)
    installed.remove(name)
    if as_json:
        print_json({"name": name, "agents": agents})
        return
    _tell(
        _("Removed the skill {name}. {activation}").format(
            name=name, activation=_activation(agents)
        )
    )


def _installed(ctx: typer.Context, home: Home) -> InstalledSkills:
    place = find_target(ctx, home).home
    return InstalledSkills(place, read_config(place / "config.json"))


def _only_agent(ctx: typer.Context, home: Home) -> list[str]:
    config = read_config(find_target(ctx, home).home / "config.json")
    if len(config.agents) != 1:
        raise InvalidRequest(
            _("Say who may use it: --agent {names}.").format(
                names=" or --agent ".join(sorted(config.agents))
            )
        )
    return [*config.agents]


def _decide(folder: SkillFolder, sha256: str, *, as_json: bool) -> None:
    """Return after a yes to exactly these files; raises InvalidRequest, or typer.Abort for a no."""
    findings = scan_folder(folder)
    refusals = tuple(finding for finding in findings if finding.level == "refused")
    if refusals:
        raise InvalidRequest(
            _("The skill {name} is refused. ").format(name=folder.name)
            + "; ".join(map(str, refusals[:5]))
            + "."
        )
    if sha256:
        if sha256 != folder.sha256:
            raise Conflict(
                _("The files have the SHA-256 {sha256}, not {sha2562}.").format(
                    sha256=folder.sha256, sha2562=sha256[:64]
                )
            )
        if not as_json:
            for line in finding_lines(findings):
                _tell(line)
        return
    if as_json or not sys.stdin.isatty():
        if not as_json:
            _print_folder(folder)
        raise InvalidRequest(
            _("Read the skill, then approve exactly these files: --sha256 {sha256}.").format(
                sha256=folder.sha256
            )
        )
    _print_folder(folder)
    confirm(
        _("Have you read it, and shall agents follow {name}?").format(name=folder.name),
        abort=True,
    )


def _print_folder(folder: SkillFolder) -> None:
    for line in folder_lines(folder, scan_folder(folder)):
        stdout_console().print(line, markup=False, highlight=False, soft_wrap=True)


def _as_data(folder: SkillFolder, findings: tuple[Finding, ...]) -> dict[str, object]:
    return {
        "name": folder.name,
        "description": folder.front.description,
        "sha256": folder.sha256,
        "allowed_tools": folder.front.allowed_tools,
        "files": [
            {"path": f.path, "executable": f.executable, "text": f.text()} for f in folder.files
        ],
        "findings": [asdict(finding) for finding in findings],
    }


def _activation(agents: list[str]) -> str:
    updates = join(
        ", ", (_("`choirctl agent update {agent}`").format(agent=agent) for agent in agents)
    )
    return _(
        "Activate it with `choirctl config load`, `choirctl config apply`, then {updates}."
    ).format(updates=updates)


def _tell(text: str) -> None:
    stderr_console().print(text, markup=False, highlight=False, soft_wrap=True)
