"""The program that makes a test call: `python -I -m choir_models.check_program`.

Standard input is a `ModelCheckRequest`, standard output its `ModelCheckResult`. Control starts it for each
test, so that control itself loads no SDK and parses no provider's answer.
"""

import asyncio
import signal
import sys

import structlog

from choir_common.wire.model_check import ModelCheckRequest
from choir_models.model_check import run_check

LONGEST_S = 180
"""Longer than a server's loading of a model and its answer may take."""


def main() -> None:
    """Answer one request."""
    signal.alarm(LONGEST_S)  # it ends also if the process that started it is gone
    # standard output has the result only
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    request = ModelCheckRequest.model_validate_json(sys.stdin.buffer.read())
    result = asyncio.run(run_check(request))
    sys.stdout.buffer.write(result.model_dump_json().encode())


if __name__ == "__main__":
    main()
