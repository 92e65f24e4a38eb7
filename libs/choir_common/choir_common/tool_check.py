"""Check of external tools by the agent's own loader, in a process of its own.

Used by control and choirctl. Functions block.
"""

import subprocess
import sys
from importlib.util import find_spec

from pydantic import ValidationError

from choir_common.errors import InvalidRequest, Unavailable
from choir_common.i18n import _
from choir_common.wire.local_tools import ToolCheckReport, ToolCheckRequest, ToolFinding

PROGRAM = (sys.executable, "-I", "-m", "choir_agent.tool_bench", "check")
TIMEOUT_S = 120.0
MAX_NAMED_FAULTS = 5


def run_tool_check(request: ToolCheckRequest) -> ToolCheckReport:
    """Return the tools of a directory, and every fault. Raises Unavailable."""
    if find_spec("choir_agent") is None:
        raise Unavailable(
            _(
                "The agent's package is not installed here, and only it can check tools. Run this where "
                "agents run as processes, or in the agent's container."
            )
        )
    try:
        done = subprocess.run(
            PROGRAM,
            input=request.model_dump_json().encode(),
            capture_output=True,
            timeout=TIMEOUT_S,
            env={"LANG": "C.UTF-8"},
            cwd="/",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(
            _("The check of the tools did not run: {error}.").format(error=error)
        ) from error
    try:
        return ToolCheckReport.model_validate_json(done.stdout)
    except ValidationError:
        reason = done.stderr.decode(errors="replace").strip()[-500:]
        raise Unavailable(
            _("The check of the tools failed: {reason}.").format(reason=reason or done.returncode)
        ) from None


def describe_fault(fault: ToolFinding) -> str:
    """Return a fault as `file:line: message`, with what to do."""
    place = f"{fault.file}:{fault.line}" if fault.line else fault.file
    advice = f" {fault.advice}" if fault.advice else ""
    return f"{place + ': ' if place else ''}{fault.message.rstrip('.')}.{advice}"


def raise_refusals(head: str, report: ToolCheckReport) -> None:
    """Raise InvalidRequest with the faults with which an agent does not start, if there are any."""
    if report.refusals:
        texts = [describe_fault(fault) for fault in report.refusals[:MAX_NAMED_FAULTS]]
        raise InvalidRequest(f"{head} {' '.join(texts)}")
