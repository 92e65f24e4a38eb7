"""Send what was read to Choir: records to memory in batches, schedules, and the persona's file."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rich.control import Control
from rich.segment import ControlType

from choir_client import AsyncMemory
from choir_common.errors import ChoirError, InvalidRequest, NotFound, StartupError
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.memory_operator import ImportRecords
from choir_common.wire.memory_records import ArchivedSessionRecord, KnowledgeRecord, Record
from choir_common.wire.schedules import NewSchedule
from choirctl.api.control import ControlClient, connect
from choirctl.imports.items import ScheduleItem
from choirctl.imports.report import ImportReport
from choirctl.output.printing import stderr_console
from choirctl.start.config_file import read_config

BATCH_RECORDS = 200
BATCH_CHARS = 400_000


@dataclass(slots=True)
class ImportResult:
    """What an import or its undoing did."""

    new_records: int = 0
    unchanged: int = 0
    left_alone: int = 0
    """Records that differ here, or whose session was erased here."""
    schedules: int = 0
    erased: int = 0
    persona: str = "none"
    notes: list[str] = field(default_factory=list)

    def figures(self) -> dict[str, object]:
        """Return the counts for --json."""
        return {
            "written": self.new_records,
            "unchanged": self.unchanged,
            "kept": self.left_alone,
            "new_schedules": self.schedules,
            "erased": self.erased,
            "persona_file": self.persona,
            "notes": self.notes,
        }


@dataclass(frozen=True, slots=True)
class ImportTask:
    """An import: where it goes, its report, and a second reading of its records."""

    place: Target
    agent_id: str
    report: ImportReport
    batches: Callable[[], Iterator[list[Record]]]


async def find_agent(place: Target, agent: str | None) -> str:
    """Return the agent, or the only one. Raises NotFound, InvalidRequest if there are several."""
    async with connect(place) as api:
        names = sorted(view.agent_id for view in await api.agents.list())
    if agent is None and len(names) == 1:
        return names[0]
    if agent is None:
        raise InvalidRequest(
            _("Say who gets it: --agent {names}.").format(names=" or --agent ".join(names))
        )
    if agent not in names:
        raise NotFound(
            _("There is no agent {agent!r}; there are {names}.").format(
                agent=agent, names=", ".join(names)
            )
        )
    return agent


async def send_import(task: ImportTask) -> ImportResult:
    """Import everything; raises ChoirError with the progress if it is interrupted."""
    counts = ImportResult()
    async with connect(task.place) as api:
        await _send_records(task, api.memory(task.agent_id), counts)
        await _add_schedules(task, api, counts)
    if task.report.personas:
        _write_persona(task, counts)
    return counts


async def undo_import(task: ImportTask) -> ImportResult:
    """Erase the conversations, memories and schedules of an export; the persona's file stays."""
    counts = ImportResult()
    async with connect(task.place) as api:
        memory = api.memory(task.agent_id)
        for records in task.batches():
            for record in records:
                try:
                    match record:
                        case ArchivedSessionRecord():
                            result = await memory.erase_session(record.session_id)
                            counts.erased += result.documents
                        case KnowledgeRecord():
                            counts.erased += (await memory.delete(record.id, None)).documents
                        case _:
                            pass
                except NotFound:
                    continue
        words = {_words(task, schedule) for schedule in task.report.schedules}
        for view in await api.schedules.list(task.agent_id):
            if view.words in words:
                await api.schedules.remove(view.schedule_id)
                counts.schedules += 1
    if task.report.personas:
        counts.notes.append(_("The persona stays; edit identity/SOUL.md of the agent."))
    return counts


async def _send_records(task: ImportTask, memory: AsyncMemory, counts: ImportResult) -> None:
    total, first = task.report.records, 0
    for batch in _pieces(task.batches()):
        piece = ImportRecords(
            import_id=task.report.import_id, first=first, total=total, records=tuple(batch)
        )
        try:
            result = await memory.import_records(piece)
        except ChoirError as error:
            raise type(error)(
                _(
                    "{message} {first:,} of {total:,} records are there; repeat the command to go on."
                ).format(message=error.message, first=first, total=total)
            ) from error
        first += len(batch)
        counts.new_records += result.written
        counts.unchanged += result.unchanged
        counts.left_alone += len(result.refused)
        if total > BATCH_RECORDS:
            _show_progress(_("{first:,} of {total:,} records").format(first=first, total=total))


def _pieces(batches: Iterator[list[Record]]) -> Iterator[list[Record]]:
    piece: list[Record] = []
    size = 0
    for records in batches:
        for record in records:
            length = len(getattr(record, "text", ""))
            if len(piece) == BATCH_RECORDS or (piece and size + length > BATCH_CHARS):
                yield piece
                piece, size = [], 0
            piece.append(record)
            size += length
    if piece:
        yield piece


async def _add_schedules(task: ImportTask, api: ControlClient, counts: ImportResult) -> None:
    known_words = {view.words for view in await api.schedules.list(task.agent_id)}
    for schedule in task.report.schedules:
        words = _words(task, schedule)
        if words in known_words:
            continue
        try:
            request = NewSchedule(
                agent_id=task.agent_id,
                kind="prompt",
                text=schedule.text,
                timing=schedule.timing,
                value=schedule.value,
                zone=schedule.zone,
                words=words,
                paused=True,
            )
            view = await api.schedules.add(request)
        except (InvalidRequest, ValueError) as error:
            reason = error.message if isinstance(error, ChoirError) else _("it is not valid")
            counts.notes.append(
                _("Schedule {schedule_id} is left out: {reason}").format(
                    schedule_id=schedule.schedule_id, reason=reason
                )
            )
            continue
        known_words.add(words)
        counts.schedules += 1
        counts.notes.append(
            _("Schedule {schedule_id} is paused: `choirctl schedule resume {schedule_id}`.").format(
                schedule_id=view.schedule_id
            )
        )


def _words(task: ImportTask, schedule: ScheduleItem) -> str:
    return f"choirctl import {task.report.source}: job {schedule.schedule_id[:200]}"


def _write_persona(task: ImportTask, counts: ImportResult) -> None:
    """Write identity/SOUL.md of an agent without a repository, unless it has another one."""
    text = "\n\n".join(persona.text for persona in task.report.personas) + "\n"
    file = task.place.home / "agents" / task.agent_id / "identity" / "SOUL.md"
    try:
        config = read_config(task.place.home / "config.json")
    except StartupError:
        counts.notes.append(
            _("The persona is left out: the state directory is not on this machine.")
        )
        return
    agent = config.agents.get(task.agent_id)
    if agent is None or agent.repo.url:
        counts.notes.append(
            _("The persona is left out: write it to identity/SOUL.md of the repository.")
        )
    elif file.is_symlink() or (file.exists() and file.read_text(encoding="utf-8") != text):
        counts.persona = "kept"
        counts.notes.append(_("The persona is left out: {file} has another one.").format(file=file))
    elif file.exists():
        counts.persona = "unchanged"
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        # at once: half a file would be another persona for the next attempt
        partial = file.with_name(f".{file.name}.partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(file)
        counts.persona = "written"
        counts.notes.append(
            _("Wrote {file}; `choirctl agent update {agent_id}` installs it.").format(
                file=file, agent_id=task.agent_id
            )
        )


def _show_progress(words: str) -> None:
    if sys.stderr.isatty():
        console = stderr_console()
        console.print(words, markup=False, end="")
        console.control(Control(ControlType.CARRIAGE_RETURN))
