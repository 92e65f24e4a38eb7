"""Serve transcription: `python -m choir_local.transcriber --model-dir DIR [--host HOST] --port PORT`.

Started by the embedded stack for an entry of `transcription` with `model_dir`, and by hand.
"""

import argparse
import sys
from pathlib import Path

# structlog imports rich if it is installed, for coloured tracebacks: 5 MB and 0.1 s that a service does not
# need. The imports below must come after this line.
sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # None forbids the import

from choir_common.http.listen import bind_tcp, serve, stop_on_signals  # noqa: E402
from choir_common.process import run_process  # noqa: E402
from choir_common.redactor import Redactor  # noqa: E402
from choir_common.service import run_event_loop  # noqa: E402
from choir_local.transcriber.app import make_transcriber_app  # noqa: E402
from choir_local.transcriber.recognizer import WhisperRecognizer  # noqa: E402


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m choir_local.transcriber", description=__doc__)
    parser.add_argument("--model-dir", type=Path, required=True, help="a faster-whisper model")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, required=True, help="TCP port; 0 selects a free one")
    return parser.parse_args()


async def _serve_until_stopped() -> None:
    arguments = _read_arguments()
    listener = bind_tcp(arguments.host, arguments.port, "--port")
    host, port = listener.getsockname()[:2]
    sys.stdout.write(f"transcriber on http://{host}:{port}/v1\n")
    sys.stdout.flush()
    app = make_transcriber_app(WhisperRecognizer(arguments.model_dir))
    await serve(app, [listener], stop_on_signals())


def main(_redactor: Redactor) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code."""
    run_event_loop(_serve_until_stopped())
    return 0


if __name__ == "__main__":
    sys.exit(run_process(main))
