"""Command `choirctl person erase`; the others are in `person_links` and `person_pairing`."""

import asyncio
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from choir_common.errors import Conflict, InvalidRequest, NotFound
from choir_common.i18n import _, join, ngettext
from choir_common.target import Target
from choir_common.wire.erasure import ErasureCertificate, PersonErasurePreview
from choir_common.wire.operations import OperationView
from choirctl.api.control import ControlClient, connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.app import add_group
from choirctl.commands.person_links import link, list_people, show, unlink
from choirctl.commands.person_pairing import pair, unpair
from choirctl.output.language import tr
from choirctl.output.operation_progress import await_operation, raise_failure
from choirctl.output.printing import print_json, stderr_console


class Subject(StrEnum):
    """What is erased."""

    PERSON = "person"
    DM = "dm"


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "person",
        ("list", list_people),
        ("show", show),
        ("link", link),
        ("unlink", unlink),
        ("pair", pair),
        ("unpair", unpair),
        ("erase", erase),
    )


def erase(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="PERSON|DM", help="A person in `people`, or a DM.")
    ],
    certificate: Annotated[
        Path | None,
        typer.Option(help="New file for the signed certificate.", show_default=False),
    ] = None,
    preview: Annotated[
        bool, typer.Option("--preview", help="Only show what would be erased; change nothing.")
    ] = False,
    only: Annotated[
        Subject | None,
        typer.Option(
            help="Whose name it is, if a person and a DM are called so.", show_default=False
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Erase all that a person said and received, in all DMs or in one.

    That is logs, messages, files, and all that memory derived from them alone. Hashes stay, so that logs
    can still be verified. Agents of the DMs are stopped and started again. Shows what would be erased, and
    asks. The signed certificate says what was removed, and what an erasure does not cover.
    """
    place = find_target(ctx, home, url)
    if certificate is not None and certificate.exists():
        text = _("{certificate} exists. Choose another name, or remove it.")
        raise Conflict(text.format(certificate=certificate))
    plan = asyncio.run(_preview(place, name, only))
    if preview:
        _print_preview(plan, as_json=as_json)
        return
    if not yes:
        _confirm(plan)
    operation = asyncio.run(_erase(place, plan, as_json))
    if operation.result is not None:
        result = ErasureCertificate.model_validate(operation.result, strict=False)
        if certificate is not None:
            _write(certificate, result)
        if as_json:
            print_json(result)
        else:
            _print_certificate(result)
    raise_failure(operation)


def _confirm(plan: PersonErasurePreview) -> None:
    if not sys.stdin.isatty():
        raise InvalidRequest(_("Nobody can be asked whether to erase it. Say --yes or --preview."))
    _print_preview(plan, as_json=False)
    what = _("person") if plan.person else "DM"
    answer = typer.prompt(
        tr(_("Type the name of the {what} to erase this permanently").format(what=what)),
        err=True,
    )
    if answer != _subject(plan):
        raise InvalidRequest(_("The name does not match; nothing was erased."))


def _print_preview(plan: PersonErasurePreview, *, as_json: bool) -> None:
    if as_json:
        print_json(plan)
        return
    console = stderr_console()
    events = sum(session.events for session in plan.sessions)
    sessions = ngettext("{count} session", "{count} sessions", len(plan.sessions))
    dms = ", ".join(plan.dms) or _("no DM")
    console.print(
        _("To erase in {dms}: {sessions} with {count}, and what memory has of them.").format(
            dms=dms, sessions=sessions, count=ngettext("{count} event", "{count} events", events)
        ),
        markup=False,
    )
    for table, count in plan.places.items():
        console.print(
            _("  {table}: {count}").format(
                table=table, count=ngettext("{count} row", "{count} rows", count)
            ),
            markup=False,
        )
    if plan.running:
        console.print(
            _("Stopped and started again: {names}.").format(names=", ".join(plan.running)),
            markup=False,
        )


def _print_certificate(result: ErasureCertificate) -> None:
    console = stderr_console()
    console.print(
        _("Erased {subject}: {count}.").format(
            subject=_subject(result),
            count=ngettext("{count} session", "{count} sessions", len(result.sessions)),
        ),
        markup=False,
    )
    for place, count in result.removed.items():
        console.print(f"  {place}: {count:,}", markup=False)
    for place, count in result.remaining.items():
        console.print(
            _("Still there: {place}, {count}.").format(
                place=place, count=ngettext("{count} row", "{count} rows", count)
            ),
            markup=False,
        )
    console.print(
        _("Not covered: {names}.").format(names=join("; ", result.not_covered)), markup=False
    )
    console.print(
        _("Signed with key {key_id}: {signature}").format(
            key_id=result.key_id, signature=result.signature
        ),
        markup=False,
    )


def _write(path: Path, result: ErasureCertificate) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(result.model_dump_json(indent=2) + "\n")


async def _preview(place: Target, name: str, only: Subject | None) -> PersonErasurePreview:
    async with connect(place) as api:
        person = None if only is Subject.DM else await _find(api, person=name)
        dm = None if only is Subject.PERSON else await _find(api, dm=name)
    if person and dm and person.dms != dm.dms:
        raise InvalidRequest(
            _("{name} is a DM, and a person with {names}. Say --only dm or --only person.").format(
                name=name, names=", ".join(person.dms) or _("no DM")
            )
        )
    plan = person or dm
    if plan is None:
        raise NotFound(
            _("There is no person and no DM {name!r}, and no session was in one.").format(name=name)
        )
    return plan


async def _erase(place: Target, plan: PersonErasurePreview, quiet: bool) -> OperationView:
    async with connect(place) as api:
        operation = await await_operation(api, await api.people.erase(plan), quiet=quiet)
    # It has the lines of all DMs, without saying whose they are.
    place.chat_history.unlink(missing_ok=True)
    return operation


async def _find(
    api: ControlClient, *, person: str = "", dm: str = ""
) -> PersonErasurePreview | None:
    try:
        return await api.people.preview_erasure(person=person, dm=dm)
    except NotFound:
        return None


def _subject(erasure: PersonErasurePreview | ErasureCertificate) -> str:
    return erasure.person or erasure.dm
