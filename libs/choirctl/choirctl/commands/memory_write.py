"""Command `choirctl memory put`: write knowledge, or change its status and validity."""

import sys
from collections.abc import Mapping
from typing import Annotated

import typer
from pydantic import ValidationError

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.wire.memory_operator import PutDocument
from choir_common.wire.memory_search import MemoryWritten
from choir_common.wire.validation_messages import error_messages
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.arguments import AgentId
from choirctl.commands.memory_options import JSON_OBJECT, Expected, send
from choirctl.output.printing import print_json, stderr_console
from choirctl.output.state_words import state_text

Text = Annotated[
    str | None, typer.Argument(metavar="TEXT", help="What to remember; else standard input.")
]
Key = Annotated[str | None, typer.Option(help="Create or replace the document with this key.")]
DocumentId = Annotated[str | None, typer.Option("--id", help="Replace the document of this id.")]
Metadata = Annotated[str | None, typer.Option(help="A JSON object about it.")]
Status = Annotated[
    str | None,
    typer.Option(
        help="`active`, or `held` or `retired`: only found on request.",
        autocompletion=lambda: ["active", "held", "retired"],
    ),
]
ValidFrom = Annotated[
    str | None, typer.Option(metavar="TIME", help="When it starts to be true: a date or time.")
]
ValidTo = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="When it stops being true; a date includes that day."),
]
Supersedes = Annotated[
    list[str] | None,
    typer.Option(metavar="DOCUMENT", help="What it replaces: an id or key. Repeatable."),
]
KeepText = Annotated[
    bool,
    typer.Option(
        "--keep-text", help="Change only status, validity and what it replaces, not its text."
    ),
]


def put(
    ctx: typer.Context,
    agent: AgentId,
    text: Text = None,
    key: Key = None,
    document: DocumentId = None,
    metadata: Metadata = None,
    expected: Expected = None,
    status: Status = None,
    valid_from: ValidFrom = None,
    valid_to: ValidTo = None,
    supersedes: Supersedes = None,
    keep_text: KeepText = False,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Write knowledge into an agent's memory as an operator.

    What is no longer true is kept and not found by searches: name it in --supersedes, or set --valid-to
    with --keep-text. Exits 5 if the document is not at version --expect-version; 0 means that it must not
    exist yet.
    """
    if keep_text and text is not None:
        raise InvalidRequest(_("Name a TEXT or --keep-text, not both."))
    place = find_target(ctx, home, url)
    fields = {
        "text": None if keep_text else text if text is not None else _read_stdin(),
        "key": key,
        "document_id": document,
        "expected_version": expected,
        "status": status,
        "valid_from": valid_from,
        "valid_to": valid_to,
        "supersedes": tuple(supersedes or ()),
    }
    body = _document(fields, metadata)
    result = send(place, agent, lambda memory: memory.write(body))
    if as_json:
        print_json(result)
    else:
        _print_result(result)


def _print_result(result: MemoryWritten) -> None:
    version = _(", version {version}").format(version=result.version) if result.version else ""
    stderr_console().print(
        f"{state_text(result.operation)}: {result.document_id}{version}", markup=False
    )
    if result.superseded:
        stderr_console().print(
            _("superseded: {names}").format(names=", ".join(result.superseded)), markup=False
        )


def _document(fields: Mapping[str, object], metadata: str | None) -> PutDocument:
    try:
        about = JSON_OBJECT.validate_json(metadata) if metadata else {}
        return PutDocument.model_validate({**fields, "metadata": about})
    except ValidationError as error:
        faults = "; ".join(error_messages(error, "metadata"))
        raise InvalidRequest(_("That cannot be written: {faults}.").format(faults=faults)) from None


def _read_stdin() -> str:
    if sys.stdin.isatty():
        stderr_console().print(_("Enter the text; end with Ctrl-D."), markup=False)
    return sys.stdin.read().strip()
