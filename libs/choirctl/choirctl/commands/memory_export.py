"""Commands `choirctl memory export|import`: an agent's memory as a file of JSON lines.

The last line of the file contains the number of records, so that a truncated file is detected before
anything is sent. An import is sent in batches, each stored completely or not at all. Existing records are
left unchanged, so an interrupted import is resumed by importing the same file again.
"""

import asyncio
import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated

import typer
from pydantic import TypeAdapter, ValidationError
from rich.control import Control
from rich.segment import ControlType

from choir_common.errors import ChoirError, Conflict, InvalidRequest, NotFound, OutcomeUnknown
from choir_common.i18n import _, ngettext
from choir_common.target import Target
from choir_common.wire.memory_operator import ImportRecords
from choir_common.wire.memory_records import ExportFooter, ExportHeader, Record
from choir_common.wire.model import DEFERRED
from choir_common.wire.validation_messages import error_message
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.arguments import AgentId
from choirctl.output.printing import JsonLineWriter, print_json, stderr_console

BATCH_RECORDS = 200
BATCH_BYTES = 500_000
PROGRESS_INTERVAL = 1_000
SHOWN = 5

RECORD: TypeAdapter[Record] = TypeAdapter(Record, config=DEFERRED)


def export(
    ctx: typer.Context,
    agent: AgentId,
    file: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A file; else standard output.", show_default=False),
    ] = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Write an agent's whole memory as JSON lines.

    Everything except vectors, which are computed again. With --out the file appears when it is complete,
    and --json prints its number of records.
    """
    place = find_target(ctx, home, url)
    if file is None:
        records = asyncio.run(_export(place, agent, JsonLineWriter()))
    else:
        records = _export_to(place, agent, file)
        if as_json:
            print_json({"file": str(file), "records": records})
            return
    stderr_console().print(
        _("{count} of {agent} exported.").format(
            count=ngettext("{count} record", "{count} records", records), agent=agent
        ),
        markup=False,
    )


def import_(
    ctx: typer.Context,
    agent: AgentId,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `export` wrote.")],
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Import an export into an agent's memory.

    Existing records are left unchanged. A record that differs from an existing one is refused, and the
    command exits 5. Repeat the command to resume an interrupted import.
    """
    place = find_target(ctx, home, url)
    total, import_id = _validate(file)
    counts = asyncio.run(_import(place, agent, file, total, import_id))
    if as_json:
        print_json({"records": total, **counts.figures})
    else:
        stderr_console().print(
            _(
                "{count}: {new_records:,} written, {unchanged:,} were there, {count2:,} refused."
            ).format(
                count=ngettext("{count} record", "{count} records", total),
                new_records=counts.new_records,
                unchanged=counts.unchanged,
                count2=len(counts.refused),
            ),
            markup=False,
        )
    if counts.refused:
        some = ", ".join(counts.refused[:SHOWN]) + (", …" if len(counts.refused) > SHOWN else "")
        raise Conflict(
            _(
                "{count} of the file were refused, because {agent} has different records with "
                "these ids, or their session was erased: {some}. All others were imported."
            ).format(
                count=ngettext("{count} record", "{count} records", len(counts.refused)),
                agent=agent,
                some=some,
            )
        )


class _ImportResult:
    """Counts of the imported records by result."""

    def __init__(self) -> None:
        self.new_records = 0
        self.unchanged = 0
        self.refused: list[str] = []

    @property
    def figures(self) -> dict[str, object]:
        """Return the counts for --json."""
        return {
            "written": self.new_records,
            "unchanged": self.unchanged,
            "refused": self.refused,
        }


def _export_to(place: Target, agent: str, file: Path) -> int:
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        # 0600: an agent's memory is private
        part.touch(0o600)
        with part.open("wb") as out:
            records = asyncio.run(_export(place, agent, out))
            os.fsync(out.fileno())
        part.replace(file)
    except OSError as error:
        raise InvalidRequest(
            _("{file} cannot be written: {error}.").format(file=file, error=error)
        ) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
    return records


async def _export(place: Target, agent: str, out: IO[bytes] | JsonLineWriter) -> int:
    """Write the lines as they arrive; return the number of records.

    Raises OutcomeUnknown if the export is incomplete.
    """
    lines, last = 0, b""
    async with connect(place) as api:
        async for line in api.memory(agent).export():
            out.write(line + b"\n")
            lines, last = lines + 1, line
            if lines % PROGRESS_INTERVAL == 0:
                _tell(_("{lines:,} records").format(lines=lines))
    out.flush()
    # the first line is the head and the last one the end; the others are records
    with contextlib.suppress(ValidationError):
        if ExportFooter.model_validate_json(last).records == lines - 2:
            return lines - 2
    raise OutcomeUnknown(
        _(
            "The export was interrupted after {lines:,} lines; the output is incomplete and "
            "cannot be imported. See `choirctl status` and the log of choird, then try again."
        ).format(lines=lines)
    )


def _validate(file: Path) -> tuple[int, str]:
    """Validate a file; return its number of records and an import id derived from its content.

    Raises NotFound if it cannot be read, InvalidRequest if it is not a complete export.
    """
    digest, records, last = hashlib.sha256(), -1, b""
    for number, line in _lines(file):
        digest.update(line)
        # validate the previous line: only the line after it shows that it was a record, not the end
        if last:
            records += 1
            if records:
                _read(file, number - 1, last)
        elif number == 1:
            _head(file, line)
        last = line
    try:
        end = ExportFooter.model_validate_json(last)
    except ValidationError:
        end = None
    if end is None or end.records != records:
        raise InvalidRequest(
            _(
                "{file} is not a complete export: its last line is missing. Nothing was imported."
            ).format(file=file)
        )
    return records, digest.hexdigest()[:32]


def _head(file: Path, line: bytes) -> None:
    try:
        ExportHeader.model_validate_json(line)
    except ValidationError:
        raise InvalidRequest(
            _(
                "{file} is not a memory export: its first line differs. Nothing was imported."
            ).format(file=file)
        ) from None


def _read(file: Path, number: int, line: bytes) -> Record:
    try:
        return RECORD.validate_json(line)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise InvalidRequest(
            _("{file}, line {number}: {where}: {error_message}. Nothing was imported.").format(
                file=file, number=number, where=where, error_message=error_message(fault)
            )
        ) from None


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with file.open("rb") as source:
            for number, line in enumerate(source, 1):
                if line.strip():
                    yield number, line.rstrip(b"\r\n")
    except OSError as error:
        raise NotFound(
            _("{file} cannot be read: {strerror}.").format(file=file, strerror=error.strerror)
        ) from error


def _pieces(file: Path, total: int) -> Iterator[list[Record]]:
    piece: list[Record] = []
    size = 0
    for place, (number, line) in enumerate(_lines(file)):
        # 0 is the head, and the line after the records is the end
        if 0 < place <= total:
            if len(piece) == BATCH_RECORDS or (piece and size + len(line) > BATCH_BYTES):
                yield piece
                piece, size = [], 0
            piece.append(_read(file, number, line))
            size += len(line)
    yield piece


async def _import(
    place: Target, agent: str, file: Path, total: int, import_id: str
) -> _ImportResult:
    counts, first = _ImportResult(), 0
    async with connect(place) as api:
        memory = api.memory(agent)
        for records in _pieces(file, total):
            piece = ImportRecords(
                import_id=import_id, first=first, total=total, records=tuple(records)
            )
            try:
                result = await memory.import_records(piece)
            except ChoirError as error:
                progress = _("{first:,} of {count} are there").format(
                    first=first, count=ngettext("{count} record", "{count} records", total)
                )
                # invalid records would be refused again, so a retry is no advice
                advice = (
                    ""
                    if isinstance(error, InvalidRequest)
                    else _("; import the same file again to resume")
                )
                raise type(error)(f"{error.message} {progress}{advice}.") from error
            first += len(records)
            counts.new_records += result.written
            counts.unchanged += result.unchanged
            counts.refused += result.refused
            if total > BATCH_RECORDS:
                _tell(_("{first:,} of {total:,} records").format(first=first, total=total))
    return counts


def _tell(words: str) -> None:
    if sys.stderr.isatty():
        console = stderr_console()
        console.print(words, markup=False, end="")
        console.control(Control(ControlType.CARRIAGE_RETURN))
