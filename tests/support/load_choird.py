"""A choird process whose agents are simulated by its caller: `python -m tests.support.load_choird`.

Endpoints, database and bus are real; only the runtime is a fake that starts no process. Reads one line of
JSON with the options from standard input, and prints one line with every agent's lease when all are started.
"""

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import uvloop

from choir_common.telemetry import Redactor, configure_logging
from choir_control.app import ControlApp
from choir_control.settings import ControlSecrets, ControlSettings
from tests.service.control.hand_runtime import HandRuntime


def load_config(home: Path, agents: int) -> dict[str, Any]:
    """Return a configuration with `agents` agents that start automatically, each with a workspace and a DM.

    The crash detection threshold is long, because fake agents may send no heartbeat for a while.
    """
    names = [f"a{number}" for number in range(agents)]
    return {
        "agents": {
            name: {
                "defaults": {"workspace": name, "llm": "default", "dm": name},
                "autostart": True,
            }
            for name in names
        },
        "workspaces": {name: {"path": str(home / "workspaces" / name)} for name in names},
        "models": {"default": {"model": "none", "endpoint": "http://127.0.0.1:1/v1"}},
        "gateways": {"console": {"type": "console"}},
        "dms": {name: {"gateway": "console", "user_id": name} for name in names},
        "crash_detection_threshold_ms": 600_000,
    }


async def serve(options: dict[str, Any]) -> None:
    """Run choird until standard input is closed."""
    home, runtime = Path(options["home"]), HandRuntime()
    (home / "config.json").write_text(json.dumps(load_config(home, options["agents"])))
    settings = ControlSettings(
        home=home,
        postgres_dsn=options["dsn"],
        nats_url=options["nats_url"],
        http_port=0,
        agents_stop_s=0,
    )
    secrets = ControlSecrets(
        postgres_password=options["password"], nats_key=options["nats_key"], operator_token="t"
    )
    stop, hurry = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(ControlApp(settings, secrets, runtime).run(stop, hurry))
    while len(runtime.specs) < options["agents"] and not running.done():
        await asyncio.sleep(0.05)
    if not running.done():
        specs = [{k: str(v) for k, v in asdict(spec).items()} for spec in runtime.specs]
        print(json.dumps(specs), flush=True)
        await asyncio.to_thread(sys.stdin.read)
    hurry.set()
    stop.set()
    await running


def main() -> None:
    """Read the options from standard input and serve."""
    order = json.loads(sys.stdin.readline())
    configure_logging("choird", "warning", Redactor())
    uvloop.run(serve(order))


if __name__ == "__main__":
    main()
