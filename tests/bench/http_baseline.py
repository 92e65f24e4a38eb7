"""HTTP baseline for heartbeats: a minimal FastAPI app that parses the body and does nothing else.

Started by `heartbeats` as a separate process: `python -m tests.bench.http_baseline SOCKET`.
"""

import json
import sys

import uvicorn
from fastapi import FastAPI, Request


def make_app() -> FastAPI:
    """Return the app."""
    app = FastAPI()

    @app.post("/rpc/HEARTBEAT")
    async def echo(request: Request) -> dict[str, int]:
        """Parse the body and return its number of events."""
        return {"ack_rev": len(json.loads(await request.body())["patches"])}

    return app


if __name__ == "__main__":
    # a long keep-alive: connections stay idle while the other blocks are measured
    uvicorn.run(
        make_app(), uds=sys.argv[1], log_level="warning", access_log=False, timeout_keep_alive=600
    )
