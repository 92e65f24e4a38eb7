"""Commands `choirctl import openclaw|hermes|chatgpt|claude|nanobot`; see docs/import.md.

An export is read twice: once for the report, which is shown before anything is sent, and once to send it
in batches. Existing records are left unchanged, so an interrupted import is resumed by the same command.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from choir_common.errors import InvalidRequest
from choir_common.i18n import Message, _, join, ngettext
from choir_common.target import Target
from choir_common.wire.memory_records import Record
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.app import add_group
from choirctl.arguments import config_name_option
from choirctl.imports import chatgpt, claude, hermes, nanobot, openclaw
from choirctl.imports.items import Item
from choirctl.imports.report import ImportReport
from choirctl.imports.send import ImportResult, ImportTask, find_agent, send_import, undo_import
from choirctl.imports.source_files import SourceFiles, open_source
from choirctl.output.printing import confirm, print_json, stderr_console

SHOWN = 20
Reader = Callable[[SourceFiles], Iterator[Item]]
SOURCES: dict[str, tuple[Reader, str]] = {
    "openclaw": (openclaw.read, _("Import OpenClaw's folder, ~/.openclaw.")),
    "hermes": (hermes.read, _("Import the folder of Hermes Agent, ~/.hermes.")),
    "chatgpt": (chatgpt.read, _("Import ChatGPT's data export.")),
    "claude": (claude.read, _("Import the data export of claude.ai.")),
    "nanobot": (nanobot.read, _("Import nanobot's folder, ~/.nanobot.")),
}
"""The reader of each source, and the help of its command."""
COUNTED: dict[str, Callable[[int], Message]] = {
    "persona": lambda n: ngettext("{count} persona file", "{count} persona files", n),
    "memories": lambda n: ngettext("{count} memory", "{count} memories", n),
    "conversations": lambda n: ngettext("{count} conversation", "{count} conversations", n),
    "messages": lambda n: ngettext("{count} message", "{count} messages", n),
    "schedules": lambda n: ngettext("{count} schedule", "{count} schedules", n),
    "channels": lambda n: ngettext("{count} channel", "{count} channels", n),
}
"""The counts of a report that are shown."""
CHANNEL_COMMANDS = {"telegram": "choirctl telegram connect"}
CHANNEL_GUIDES = ("discord", "slack", "matrix", "email", "whatsapp", "signal")

ExportPath = Annotated[
    Path, typer.Argument(metavar="PATH", help="The folder or ZIP file.", show_default=False)
]
Agent = Annotated[
    str | None,
    config_name_option("--agent", "Who gets it. Default: the only agent.", "agents"),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only report; Choir need not run.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Undo = Annotated[
    bool, typer.Option("--undo", help="Erase what was imported from it; it cannot come again.")
]


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(app, "import", *((source, _command(source)) for source in SOURCES))


def _command(source: str) -> Callable[..., None]:
    """Return the command that imports from one source."""

    def import_source(
        ctx: typer.Context,
        path: ExportPath,
        agent: Agent = None,
        dry_run: DryRun = False,
        yes: Yes = False,
        undo: Undo = False,
        home: Home = None,
        url: Url = None,
        as_json: AsJson = False,
    ) -> None:
        place = find_target(ctx, home, url)
        _import(source, path, place, agent, dry_run=dry_run, yes=yes, undo=undo, as_json=as_json)

    import_source.__doc__ = SOURCES[source][1]
    return import_source


def _import(
    source: str,
    path: Path,
    place: Target,
    agent: str | None,
    *,
    dry_run: bool,
    yes: bool,
    undo: bool,
    as_json: bool,
) -> None:
    read, _help = SOURCES[source]
    with open_source(path) as files:
        default_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)

        def batches() -> Iterator[list[Record]]:
            recount = ImportReport(source)
            for item in read(files):
                yield recount.add(item, default_at)

        report = ImportReport(source)
        for item in read(files):
            report.add(item, default_at)
        if not as_json or not yes:
            _print_report(report)
        if dry_run:
            if as_json:
                print_json({"dry_run": True, **report.figures()})
            return
        agent_id = asyncio.run(find_agent(place, agent))
        _ask(
            _("{value} this, agent {agent_id}?").format(
                value=_("Erase") if undo else _("Import"), agent_id=agent_id
            ),
            yes=yes,
        )
        task = ImportTask(place, agent_id, report, batches)
        counts = asyncio.run(undo_import(task) if undo else send_import(task))
    if as_json:
        figures = {"dry_run": False, "agent": agent_id, **report.figures(), **counts.figures()}
        print_json(figures)
    else:
        _print_result(counts, agent_id, undo=undo)


def _ask(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidRequest(
            _("Nobody can be asked. Say --yes to import it, or --dry-run to look.")
        )
    if not confirm(question):
        raise InvalidRequest(_("Nothing was changed."))


def _print_report(report: ImportReport) -> None:
    counted = (describe(report.counts[name]) for name, describe in COUNTED.items())
    _tell(_("Found: {counted}").format(counted=join(", ", counted)))
    if report.first and report.last:
        _tell(
            _("From {first:%Y-%m-%d} to {last:%Y-%m-%d}").format(
                first=report.first, last=report.last
            )
        )
    for schedule in report.schedules:
        zone = f" {schedule.zone}" if schedule.zone else ""
        _tell(
            _("Schedule, paused: {timing} {value}{zone}: {text}").format(
                timing=schedule.timing, value=schedule.value, zone=zone, text=schedule.text
            )
        )
    for channel in report.channels:
        _tell(
            _("Channel {channel}: {advice}. Its tokens are not copied.").format(
                channel=channel, advice=_advice(channel)
            )
        )
    for omission in report.omissions[:SHOWN]:
        _tell(_("Left out: {place}: {reason}").format(place=omission.place, reason=omission.reason))
    if report.counts["left out"] > SHOWN:
        _tell(
            _("Left out: {counts:,} more; --json lists them.").format(
                counts=report.counts["left out"] - SHOWN
            )
        )
    for persona in report.personas:
        _tell(
            _("Persona {name}, which would become part of every prompt:").format(name=persona.name)
        )
        _tell(persona.text)
        _tell(_("End of {name}.").format(name=persona.name))


def _advice(channel: str) -> str:
    if channel in CHANNEL_COMMANDS:
        return _("connect it with `{channel_commands}`").format(
            channel_commands=CHANNEL_COMMANDS[channel]
        )
    return (
        _("see docs/{channel}.md").format(channel=channel)
        if channel in CHANNEL_GUIDES
        else _("Choir has no such channel")
    )


def _print_result(counts: ImportResult, agent_id: str, *, undo: bool) -> None:
    if undo:
        _tell(
            _("Erased from the memory of {agent_id}: {count}.").format(
                agent_id=agent_id,
                count=ngettext("{count} record", "{count} records", counts.erased),
            )
        )
    elif not (counts.new_records or counts.schedules or counts.persona == "written"):
        _tell(_("Nothing new: {agent_id} has all of it.").format(agent_id=agent_id))
    else:
        _tell(
            _("Imported into the memory of {agent_id}: {count}.").format(
                agent_id=agent_id,
                count=ngettext("{count} record", "{count} records", counts.new_records),
            )
        )
    if counts.left_alone:
        _tell(
            _("Left as they are, because they were changed or erased here: {left_alone:,}.").format(
                left_alone=counts.left_alone
            )
        )
    for note in counts.notes:
        _tell(note)


def _tell(words: str) -> None:
    stderr_console().print(words, markup=False, highlight=False)
