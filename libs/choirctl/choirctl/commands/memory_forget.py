"""Commands `choirctl memory forget|undo` and `choirctl session reset`: preview, question, erasure."""

import re
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from choir_client import AsyncMemory
from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.memory_forget import (
    ForgetReport,
    ForgetScope,
    ForgetSelection,
    ResetRequest,
)
from choir_common.wire.memory_search import Since, Until
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.arguments import AgentId
from choirctl.commands.memory_options import OfSession, SinceTime, UntilTime, send
from choirctl.output.forget_views import forget_lines, forgotten_rows
from choirctl.output.printing import confirm, print_json, print_rows, stderr_console

Request = Callable[[AsyncMemory, str | None], Awaitable[ForgetReport]]
"""Sends the request with the digest of a preview, or without one for the preview."""

_SINCE: TypeAdapter[datetime] = TypeAdapter(Since)
_UNTIL: TypeAdapter[datetime] = TypeAdapter(Until)
_DURATION = re.compile(r"(\d{1,6})\s*(m|min|minutes?|h|hours?|d|days?|w|weeks?)")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

Preview = Annotated[
    bool, typer.Option("--preview", help="Only show what would be erased; change nothing.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Last = Annotated[
    str | None,
    typer.Option(help="Instead of times: the last 10m, 2h, 3d or 1w.", show_default=False),
]


def forget(
    ctx: typer.Context,
    agent: AgentId,
    words: Annotated[
        str | None, typer.Option(help="Documents that contain all of these words.")
    ] = None,
    session: OfSession = None,
    since: SinceTime = None,
    until: UntilTime = None,
    last: Last = None,
    preview: Preview = False,
    yes: Yes = False,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Erase words, a session or a period from an agent's memory.

    Everything derived from it is erased, too, and so are the logs and messages of the sessions; a running
    agent starts again without it. Shows exactly what would be erased, and asks. Exits 5 if memory changed
    since the preview.
    """
    selection = _select(
        "everything",
        words=words,
        source=None,
        session=session,
        period=_period(since, until, last),
    )
    place = find_target(ctx, home, url)
    _carry_out(place, agent, _forget_request(selection), preview=preview, yes=yes, as_json=as_json)


def undo(
    ctx: typer.Context,
    agent: AgentId,
    source: Annotated[
        str | None,
        typer.Option(
            help="What was learned from this document (its id or key).", show_default=False
        ),
    ] = None,
    session: OfSession = None,
    since: SinceTime = None,
    until: UntilTime = None,
    last: Last = None,
    preview: Preview = False,
    yes: Yes = False,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Take back what was learned from a source, session or period.

    That is facts, notes and summaries. What was said stays, but nothing is learned from it again. A fact
    that another one had replaced is active again. Shows exactly what would be erased, and asks.
    """
    selection = _select(
        "learned",
        words=None,
        source=source,
        session=session,
        period=_period(since, until, last),
    )
    place = find_target(ctx, home, url)
    _carry_out(place, agent, _forget_request(selection), preview=preview, yes=yes, as_json=as_json)


def reset(
    ctx: typer.Context,
    agent: AgentId,
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Also erase the reference summary and what was learned from it."
        ),
    ] = False,
    preview: Preview = False,
    yes: Yes = False,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Start an agent's conversation again with an empty session.

    Erases its session's messages, log and vectors. The reference summary, facts, rules, notes and tool
    failures stay; with --all only what other sessions support. Shows exactly what would be erased, and
    asks.
    """

    async def request(memory: AsyncMemory, digest: str | None) -> ForgetReport:
        kind = ResetRequest(kind="all" if everything else "history", expected_digest=digest)
        return await memory.reset(kind)

    place = find_target(ctx, home, url)
    _carry_out(place, agent, request, preview=preview, yes=yes, as_json=as_json)


def _select(
    scope: ForgetScope,
    *,
    words: str | None,
    source: str | None,
    session: str | None,
    period: tuple[datetime | None, datetime | None],
) -> ForgetSelection:
    since, until = period
    conditions = (words, source, session, since, until)
    if all(part is None for part in conditions):
        first = "--words" if scope == "everything" else "--source"
        raise InvalidRequest(
            _("Name what to erase: {first}, --session, --last, --since or --until.").format(
                first=first
            )
        )
    if source is not None and any(part is not None for part in (words, session, since, until)):
        raise InvalidRequest(_("--source is a single document; leave out the other conditions."))
    if words is not None and not 1 <= len(words.strip()) <= 400:
        raise InvalidRequest(_("--words takes 1 to 400 characters."))
    return ForgetSelection(
        scope=scope, words=words, document=source, session_id=session, since=since, until=until
    )


def _period(
    since: str | None, until: str | None, last: str | None
) -> tuple[datetime | None, datetime | None]:
    if last is None:
        return _parse_time(since, "--since", _SINCE), _parse_time(until, "--until", _UNTIL)
    if since is not None or until is not None:
        raise InvalidRequest(_("--last is a period of its own; leave out --since and --until."))
    match = _DURATION.fullmatch(last.strip().lower())
    if match is None or not int(match[1]):
        raise InvalidRequest(
            _("--last takes for example 10m, 2h, 3d or 1w, not {last!r}.").format(last=last)
        )
    return datetime.now(UTC) - timedelta(**{_UNITS[match[2][0]]: int(match[1])}), None


def _parse_time(text: str | None, option: str, adapter: TypeAdapter[datetime]) -> datetime | None:
    if text is None:
        return None
    try:
        return adapter.validate_python(text)
    except ValidationError:
        raise InvalidRequest(
            _(
                "{option} takes a time such as 2026-03-01 or 2026-03-01T12:00 (UTC), not {text!r}."
            ).format(option=option, text=text)
        ) from None


def _forget_request(selection: ForgetSelection) -> Request:
    async def request(memory: AsyncMemory, digest: str | None) -> ForgetReport:
        return await memory.forget(selection.model_copy(update={"expected_digest": digest}))

    return request


def _carry_out(
    place: Target, agent: str, request: Request, *, preview: bool, yes: bool, as_json: bool
) -> None:
    """Show the preview, ask unless it is empty, and erase exactly that."""
    report = send(place, agent, lambda memory: request(memory, None))
    if preview:
        _print_report(report, as_json=as_json)
        return
    if not yes:
        if not sys.stdin.isatty():
            raise InvalidRequest(
                _("Nobody can be asked whether to erase it. Say --yes or --preview.")
            )
        _print_report(report, as_json=as_json and report.is_empty)
        if report.is_empty:
            return
        if not confirm(_("Erase this permanently?")):
            raise InvalidRequest(_("Nothing was erased."))
    done = send(place, agent, lambda memory: request(memory, report.memory.digest))
    if as_json:
        print_json(done)
    else:
        for line in forget_lines(done):
            stderr_console().print(line, markup=False)


def _print_report(report: ForgetReport, *, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    print_rows(forgotten_rows(report.memory.documents), _("Memory contains nothing of it."))
    for line in forget_lines(report):
        stderr_console().print(line, markup=False)
