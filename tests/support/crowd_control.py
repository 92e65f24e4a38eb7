"""A choird process whose agents are played by its caller: `python -m tests.support.crowd_control`.

Real doors, database and bus; only the runtime is a stand-in that starts no process. Told in one line of
JSON on standard input what to serve; answers one line with every agent's lease when all have started.
"""

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import uvloop

from choir_common.telemetry import Redactor, configure_logging
from choir_control.app import Control
from choir_control.settings import ControlSecrets, ControlSettings
from tests.service.control.hand_runtime import HandRuntime


def crowd_config(home: Path, agents: int) -> dict[str, Any]:
    """Return a configuration of `agents` agents with a workspace and a DM each, started by themselves.

    None is taken for dead: whoever plays them may have nothing to say for a while.
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


async def serve(order: dict[str, Any]) -> None:
    """Serve until standard input is closed."""
    home, runtime = Path(order["home"]), HandRuntime()
    (home / "config.json").write_text(json.dumps(crowd_config(home, order["agents"])))
    settings = ControlSettings(
        home=home,
        postgres_dsn=order["dsn"],
        nats_url=order["nats_url"],
        http_port=0,
        agents_stop_s=0,
    )
    secrets = ControlSecrets(
        postgres_password=order["password"], nats_token=order["nats_token"], operator_token="t"
    )
    stop, hurry = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(Control(settings, secrets, runtime).run(stop, hurry))
    while len(runtime.specs) < order["agents"] and not running.done():
        await asyncio.sleep(0.05)
    if not running.done():
        specs = [{k: str(v) for k, v in asdict(spec).items()} for spec in runtime.specs]
        print(json.dumps(specs), flush=True)
        await asyncio.to_thread(sys.stdin.read)
    hurry.set()
    stop.set()
    await running


def main() -> None:
    """Serve what standard input asks for."""
    order = json.loads(sys.stdin.readline())
    configure_logging("choird", "warning", Redactor())
    uvloop.run(serve(order))


if __name__ == "__main__":
    main()
