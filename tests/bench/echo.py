"""The floor of a heartbeat's HTTP: a bare FastAPI app that answers a body with nothing done about it.

Started by `heartbeats` as a process of its own: `python -m tests.bench.echo SOCKET`.
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
        """Read the body and say how many events it holds."""
        return {"ack_rev": len(json.loads(await request.body())["patches"])}

    return app


if __name__ == "__main__":
    # its turn comes again after the other blocks: the connections are to be there still
    uvicorn.run(
        make_app(), uds=sys.argv[1], log_level="warning", access_log=False, timeout_keep_alive=600
    )
