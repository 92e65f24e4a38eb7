"""Run a service as a process: settings, secrets, redaction, logging, tracing, event loop, exit code.

Agents start without it: they take their settings from control and use asyncio's own event loop.
"""

import gc
from collections.abc import Callable, Coroutine
from typing import TypeVar

import uvloop

from choir_common.process import run_process
from choir_common.redactor import Redactor
from choir_common.settings import ServiceSecrets, ServiceSettings
from choir_common.telemetry import LogTarget, configure_logging
from choir_common.tracing import export_spans

GC_THRESHOLDS = (10_000, 20, 20)
"""Arguments of gc.set_threshold(): allocations before gen 0; gen-0 runs before gen 1, gen-1 runs before
gen 2."""

SettingsT = TypeVar("SettingsT", bound=ServiceSettings)
SecretsT = TypeVar("SecretsT", bound=ServiceSecrets)


def run_service(
    serve: Callable[[SettingsT, SecretsT, Redactor], Coroutine[None, None, None]],
    *,
    settings_type: type[SettingsT],
    secrets_type: type[SecretsT],
    log_source: str,
    span_service: str,
    open_log: Callable[[SettingsT], LogTarget | None] | None = None,
) -> int:
    """Run `serve` until it returns; return the exit code.

    `open_log` returns where log lines go besides standard error, if anywhere.
    """

    def main(redactor: Redactor) -> int:
        settings = settings_type.load()
        secrets = settings.read_secrets(secrets_type)
        redactor.add_secrets(secrets.values())
        log_file = open_log(settings) if open_log else None
        configure_logging(log_source, settings.log_level, redactor, log_file)
        with export_spans(span_service, settings.otlp_endpoint):
            run_event_loop(serve(settings, secrets, redactor))
        return 0

    return run_process(main)


def run_event_loop(work: Coroutine[None, None, None]) -> None:
    """Run `work` on uvloop until it returns.

    Imported objects are excluded from garbage collection, and collections run less often than by default:
    they took a tenth of the time of a memory search.
    """
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    uvloop.run(work)
