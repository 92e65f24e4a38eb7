"""Start of both programs. Exit codes: 0 the report was written, 1 it could not be made."""

import sys

from pydantic import ValidationError

from choir_agent.process_startup import harden_process
from choir_agent.tool_bench.check import check_tools
from choir_agent.tool_bench.trial import run_trial
from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_common.process import run_process
from choir_common.telemetry import Redactor, configure_logging
from choir_common.wire.local_tools import ToolCheckRequest, ToolTrialOrder
from choir_common.wire.model import WireModel
from choir_common.wire.validation_messages import error_messages

MAX_ORDER_BYTES = 2_000_000


def run(redactor: Redactor) -> int:
    """Run the program that the command line names; return the exit code."""
    configure_logging("tool_bench", "warning", redactor)
    text = sys.stdin.buffer.read(MAX_ORDER_BYTES)
    try:
        match sys.argv[1:]:
            case ["check"]:
                report: WireModel = check_tools(ToolCheckRequest.model_validate_json(text))
            case ["try"]:
                harden_process()
                report = run_trial(ToolTrialOrder.model_validate_json(text), redactor)
            case _:
                raise StartupError(_("Use `python -m choir_agent.tool_bench check` or `try`."))
    except ValidationError as error:
        # `from None`: pydantic's own message would quote the key
        raise StartupError(
            _("Invalid order: {errors}.").format(errors="; ".join(error_messages(error, "line")))
        ) from None
    sys.stdout.write(report.model_dump_json() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_process(run))
