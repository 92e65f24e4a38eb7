"""Run one agent: `python -m choir_agent`, with one line of JSON (AgentBoot) on standard input.

Called by control's runtimes. Exit codes: 0 ended in good order, 1 could not start or flush, 3 control took
the session away.
"""

import sys

# structlog loads rich when it finds it, for coloured tracebacks: 6 MB and 0.1 s an agent never uses
sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # None forbids the import

import asyncio  # noqa: E402 - the line above must come first

import structlog  # noqa: E402

from choir_agent import spans  # noqa: E402
from choir_agent.app import run_agent  # noqa: E402
from choir_agent.boot import harden, read_boot  # noqa: E402
from choir_agent.settings import AgentProcessSettings  # noqa: E402
from choir_common.errors import StartupError  # noqa: E402
from choir_common.telemetry import Redactor, configure_logging  # noqa: E402
from choir_common.tracing import exporting  # noqa: E402


def main() -> int:
    """Harden, read the boot line, be the agent."""
    redactor = Redactor()
    try:
        harden()
        settings = AgentProcessSettings.load()
        boot = read_boot()
        redactor.learn([boot.lease_token])
        configure_logging(f"agent.{boot.agent_id}", settings.log_level, redactor)
        with exporting(spans.SERVICE, settings.otlp_endpoint, spans.about(boot)):
            return asyncio.run(run_agent(boot, settings, redactor))
    except StartupError as error:
        sys.stderr.write(f"choir_agent cannot start. {redactor.clean(error.message)}\n")
        return error.exit_code
    except Exception:
        # the process's outermost frame: whatever it is goes through the redactor
        structlog.get_logger("choir.agent").exception("the agent broke")
        return 1


if __name__ == "__main__":
    sys.exit(main())
