"""Command `choirctl upgrade`: to a newer version of Choir, or back to the old one if that fails."""

import asyncio
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from choir_common.errors import ChoirError, Conflict, InvalidRequest
from choir_common.i18n import _, ngettext
from choir_common.lanes import is_core
from choir_common.target import Target
from choir_local.backup.create import require_own_home
from choir_local.home import Home as LocalHome
from choir_local.settings import LocalSettings
from choir_local.upgrade.code import find_checkout
from choir_local.upgrade.compose_images import PUBLISHED
from choir_local.upgrade.installations import containers_run, upgrade_steps
from choir_local.upgrade.record import Step, UpgradeRecord, UpgradeRecordFile, UpgradeVersions
from choir_local.upgrade.sequence import UpgradeSequence
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, find_target
from choirctl.output.printing import confirm, print_json, stderr_console
from choirctl.start.background import agents_if_running, is_running

INSTALLED, GIT = "installed", "git"
IMAGE_SOURCE = re.compile(rf"{PUBLISHED}\w[\w.-]{{0,127}}", re.ASCII)
"""The tag of an image, as registries accept it."""
STEP_TEXTS: dict[Step, str] = {
    "prepare": _("fetching the new version"),
    "backup": _("writing a backup"),
    "stop": _("stopping Choir"),
    "snapshot": _("copying the database"),
    "switch": _("installing the new version"),
    "migrate": _("migrating the database"),
    "start": _("starting the new version"),
    "verify": _("checking it"),
    "finish": _("removing the copies"),
    "halt": _("stopping what was started"),
    "switch_back": _("installing the old version again"),
    "restore": _("restoring the database"),
    "start_again": _("starting the old version"),
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(upgrade)


def upgrade(
    ctx: typer.Context,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="SOURCE",
            help="A directory of wheels, an index's address, `git` or `git:REF` for a checkout, or "
            "`installed` if the new version is installed already; with --compose `git`, `git:REF`, or "
            "`image:VERSION` for published images. Default: `git` in a checkout.",
        ),
    ] = None,
    compose: Annotated[
        Path | None,
        typer.Option(
            "--compose",
            metavar="DIR",
            help="Upgrade Choir in containers: the checkout with the docker-compose.yml that started them.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Upgrade Choir, and return to the old version if that fails.

    Backs up, stops, installs, migrates, starts and checks. If the new version does not become ready, the old
    one and its database are put back and started. An upgrade that was interrupted is continued, also by
    `choirctl up`.
    """
    place = find_target(ctx, home)
    settings = LocalSettings.load().model_copy(update={"home": place.home.expanduser().absolute()})
    local = LocalHome(settings.home)
    if compose is None:
        require_own_home(settings)
    file = UpgradeRecordFile(local)
    with file.lock():
        record = file.read()
        resumes = record is not None and record.outcome is None
        if record is not None and resumes:
            record = run_upgrade(settings, record, resumes=True)
        if record is None or not resumes or record.outcome == "abandoned":
            code = _parse_compose(compose, source) if compose else _parse_source(source)
            asyncio.run(_confirm(place, yes=yes))
            record = run_upgrade(settings, _new_record(local, code), resumes=False)
    _report(record, as_json=as_json)


def run_upgrade(settings: LocalSettings, record: UpgradeRecord, *, resumes: bool) -> UpgradeRecord:
    """Do an upgrade, or what is left of it, and show its steps. The caller has the lock."""
    file = UpgradeRecordFile(LocalHome(settings.home))
    with stderr_console().status(_("upgrading…")) as line:
        sequence = UpgradeSequence(
            file,
            upgrade_steps(settings, record),
            lambda step: line.update(f"{STEP_TEXTS[step]}…"),
        )
        return asyncio.run(sequence.resume(record) if resumes else sequence.run(record))


def _parse_source(source: str | None) -> UpgradeVersions:
    if source == INSTALLED:
        return UpgradeVersions(kind="installed")
    if source is None and find_checkout() is None:
        raise InvalidRequest(
            _(
                "Name where the new version is: --from DIRECTORY with wheels, --from https://… "
                "for an index, or --from installed if it is installed already."
            )
        )
    if source is None or source == GIT or source.startswith(f"{GIT}:"):
        ref = (source or GIT).removeprefix(GIT).removeprefix(":") or "@{upstream}"
        return UpgradeVersions(kind="checkout", source=ref)
    if "://" not in source and not Path(source).is_dir():
        raise InvalidRequest(_("There is no directory {source}.").format(source=source))
    place = source if "://" in source else str(Path(source).absolute())
    return UpgradeVersions(kind="wheels", source=place)


def _parse_compose(directory: Path, source: str | None) -> UpgradeVersions:
    if not (directory / "docker-compose.yml").is_file() or not (directory / ".git").exists():
        raise InvalidRequest(
            _("{directory} is not a git checkout of Choir with a docker-compose.yml.").format(
                directory=directory
            )
        )
    place = str(directory.absolute())
    if source is not None and IMAGE_SOURCE.fullmatch(source):
        return UpgradeVersions(kind="compose", source=source, directory=place)
    if source is not None and source != GIT and not source.startswith(f"{GIT}:"):
        raise InvalidRequest(
            _(
                "With --compose the new version is a commit, --from git or --from git:REF, or the tag of "
                "published images: --from image:VERSION."
            )
        )
    ref = (source or GIT).removeprefix(GIT).removeprefix(":") or "@{upstream}"
    return UpgradeVersions(kind="compose", source=ref, directory=place)


def _new_record(home: LocalHome, code: UpgradeVersions) -> UpgradeRecord:
    now = datetime.now(UTC).replace(microsecond=0)
    runs = asyncio.run(containers_run(home, code)) if code.directory else is_running(home)
    return UpgradeRecord(id=f"{now:%Y%m%dT%H%M%SZ}", made_at=now, code=code, was_running=runs)


async def _confirm(place: Target, *, yes: bool) -> None:
    """Ask before running jobs are interrupted; without a terminal refuse."""
    agents = await agents_if_running(place)
    if not agents:
        return
    async with connect(place) as api:
        operations = [it for it in await api.operations.list(20) if it.status == "running"]
    if operations:
        raise Conflict(
            _("{kind} of {subject} is at work. Wait for it: `choirctl operation list`.").format(
                kind=operations[0].kind, subject=operations[0].subject
            )
        )
    jobs = sum(is_core(lane.lane) for agent in agents for lane in agent.lanes)
    if not jobs or yes:
        return
    text = _("{count} at work: they continue after the upgrade.").format(
        count=ngettext("{count} core job", "{count} core jobs", jobs)
    )
    if not sys.stdin.isatty():
        raise Conflict(_("{text} Upgrade with --yes.").format(text=text))
    stderr_console().print(text)
    if not confirm(_("Upgrade now?")):
        raise InvalidRequest(_("Nothing was changed."))


def _report(record: UpgradeRecord, *, as_json: bool) -> None:
    if as_json:
        print_json(record)
    elif record.outcome == "done":
        old = _(" from {old}").format(old=record.code.old[:12]) if record.code.old else ""
        published = record.code.source.startswith(PUBLISHED)
        new = record.code.source.removeprefix(PUBLISHED) if published else record.code.new[:12]
        stderr_console().print(
            _("Choir is upgraded{old} to {new}. The backup from before is {backup}.").format(
                old="" if published else old, new=new, backup=record.backup
            ),
            markup=False,
        )
    if record.outcome == "abandoned":
        raise ChoirError(_("Nothing was changed: {error}").format(error=record.error))
    if record.outcome == "rolled-back":
        raise ChoirError(_rolled_back(record))


def _rolled_back(record: UpgradeRecord) -> str:
    """Return what happened, and what is left to do."""
    if record.code.kind == "installed":
        after = _(
            "The database is as before, and Choir is stopped: the old version is not "
            "installed any more. Install it again, then `choirctl up`."
        )
    else:
        after = _("The old version and its database are in place again.")
    return _("The upgrade failed in the step {last_forward}: {error} {after}").format(
        last_forward=record.last_forward, error=record.error, after=after
    )
