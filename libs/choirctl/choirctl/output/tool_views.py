"""Checks and trials of tools as text. Pure."""

import json
from collections.abc import Iterator
from pathlib import Path

from choir_common.escape_text import escape_hidden
from choir_common.i18n import _
from choir_common.tool_check import describe_fault
from choir_common.wire.local_tools import ToolCheckReport, ToolTrial
from choirctl.output.state_words import state_text


def check_lines(folder: Path, report: ToolCheckReport) -> Iterator[str]:
    """Yield a line for each fault, then one that sums up."""
    for fault in report.faults:
        kind = _("error") if fault.level == "refused" else _("warning")
        yield f"{kind}: {folder}/{escape_hidden(describe_fault(fault))}"
    names = ", ".join(tool.name for tool in report.tools) or _("none")
    yield _("{count} errors. Tools that the agent loads: {names}.").format(
        count=len(report.refusals), names=names
    )


def trial_lines(trial: ToolTrial) -> Iterator[str]:
    """Yield the parts of a trial: input, result, standard error, and what the walls refused."""
    yield _("Input   {json}").format(json=_json(trial.input))
    exit_code = (
        ""
        if trial.exit_code is None
        else _(", exit code {exit_code}").format(exit_code=trial.exit_code)
    )
    yield _("Result  {status}, {duration_ms} ms{exit_code}").format(
        status=state_text(trial.status), duration_ms=trial.duration_ms, exit_code=exit_code
    )
    yield f"        {_json(trial.output)}"
    if trial.stderr:
        yield _("Standard error")
        # A mark before each line: no line of a tool can pass for one of ours.
        yield from (f"│ {escape_hidden(line, keep=chr(9))}" for line in trial.stderr.splitlines())
    for contact in trial.connections:
        yield _("Network {host}:{port}: {decision}, {connections} connections").format(
            host=contact.host,
            port=contact.port,
            decision=state_text(contact.decision),
            connections=contact.connections,
        )
    for refusal in trial.refusals:
        yield _("Refused {escape_hidden}").format(escape_hidden=escape_hidden(refusal))
    if trial.secrets_left_out:
        yield _("Secrets left out, which a real call gets: {names}").format(
            names=", ".join(trial.secrets_left_out)
        )
    for wall in trial.missing_walls:
        yield _("This host lacks {wall}").format(wall=wall)


def _json(value: object) -> str:
    return escape_hidden(json.dumps(value, ensure_ascii=False))
