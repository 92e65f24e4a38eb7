"""Run one agent: `python -m choir_agent`, with one line of JSON (AgentStartParameters) on standard input.

Started by control's runtimes. Exit codes: 0 orderly shutdown, 1 startup or final flush failed, 3 control
ended the session.
"""

import sys

# structlog imports these where they are installed: 7 MB and 0.1 s that an agent never needs
sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # None forbids the import
sys.modules.setdefault("greenlet", None)  # type: ignore[arg-type]

import asyncio  # noqa: E402 - the line above must come first
import gc  # noqa: E402

from choir_agent import tracing_spans  # noqa: E402
from choir_agent.app import run_agent  # noqa: E402
from choir_agent.egress.relay import open_relay  # noqa: E402
from choir_agent.process_startup import harden_process, read_boot_message  # noqa: E402
from choir_agent.settings import AgentProcessSettings  # noqa: E402
from choir_common.process import run_process  # noqa: E402
from choir_common.telemetry import Redactor, configure_logging  # noqa: E402
from choir_common.tracing import export_spans  # noqa: E402

GC_THRESHOLDS = (700, 10, 10)
"""Python's own thresholds of garbage collection."""


def run(redactor: Redactor) -> int:
    """Harden the process, read the boot line and run the agent; return the exit code."""
    # seldom while it was imported (choir_common); from here on memory is dearer to an agent than time
    gc.set_threshold(*GC_THRESHOLDS)
    harden_process()
    settings = AgentProcessSettings.load()
    boot = read_boot_message()
    redactor.add_secrets([boot.lease_token, boot.egress_key])
    configure_logging(f"agent.{boot.agent_id}", settings.log_level, redactor)
    egress = open_relay(boot)
    with (
        export_spans(
            tracing_spans.SERVICE,
            settings.otlp_endpoint,
            tracing_spans.resource_attributes(boot),
            proxy_url=egress.route.own_url if egress else None,
        ),
        asyncio.Runner(loop_factory=egress.make_event_loop if egress else None) as runner,
    ):
        return runner.run(run_agent(boot, settings, redactor, egress))


if __name__ == "__main__":
    sys.exit(run_process(run))
