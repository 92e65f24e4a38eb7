"""Serve the rehearsal model: `python -m choir_local.rehearsal --port N|--uds PATH [--score FILE]`.

Started by the embedded stack, by compose, and by hand. `--fd N` uses a socket that the supervisor already
listens on, so that its port stays the same across restarts.
"""

import argparse
import socket
import sys
from pathlib import Path

# structlog imports rich if it is installed, for coloured tracebacks: 5 MB and 0.1 s that a service does not
# need. The imports below must come after this line.
sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # None forbids the import

from choir_common.http.listen import bind_tcp, bind_unix, serve, stop_on_signals  # noqa: E402
from choir_common.process import run_process  # noqa: E402
from choir_common.redactor import Redactor  # noqa: E402
from choir_common.service import run_event_loop  # noqa: E402
from choir_local.rehearsal.app import make_rehearsal_app  # noqa: E402
from choir_local.rehearsal.score import load_score  # noqa: E402


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m choir_local.rehearsal", description=__doc__)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--port", type=int, help="TCP port; 0 selects a free one and prints it")
    where.add_argument("--uds", type=Path, help="path of a Unix socket")
    where.add_argument("--fd", type=int, help="an inherited listening socket")
    parser.add_argument("--host", default="127.0.0.1", help="address for --port")
    parser.add_argument("--score", type=Path, help="JSON file with the score to follow")
    return parser.parse_args()


def _listen(arguments: argparse.Namespace) -> socket.socket:
    if arguments.fd is not None:
        listener = socket.socket(fileno=arguments.fd)
        listener.setblocking(False)
        return listener
    if arguments.uds is not None:
        return bind_unix(arguments.uds)
    return bind_tcp(arguments.host, arguments.port, "--port")


def _address(listener: socket.socket) -> str:
    name = listener.getsockname()
    return f"unix://{name}" if isinstance(name, str) else f"http://{name[0]}:{name[1]}/v1"


async def _serve_until_stopped() -> None:
    """Read the arguments and serve until SIGTERM or SIGINT."""
    arguments = _read_arguments()
    score = load_score(arguments.score) if arguments.score else None
    listener = _listen(arguments)
    sys.stdout.write(f"rehearsal model on {_address(listener)}\n")
    sys.stdout.flush()
    await serve(make_rehearsal_app(score), [listener], stop_on_signals())


def main(_redactor: Redactor) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code."""
    run_event_loop(_serve_until_stopped())
    return 0


if __name__ == "__main__":
    sys.exit(run_process(main))
