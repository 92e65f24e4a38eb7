"""Registration of this process with control (INIT_HELLO). Called by `app` before anything else runs."""

import asyncio

from choir_agent.control.backoff import Backoff
from choir_agent.control.client import Control, says_stop
from choir_common.errors import BadInput, ChoirError, StartupError
from choir_common.wire.rpc import HelloRequest, HelloResponse


async def greet(control: Control, request: HelloRequest, patience_s: float) -> HelloResponse:
    """Send INIT_HELLO and return the response; retries, because control may still be starting.

    Raises StartupError if control does not answer within `patience_s` or rejects the request, and Fenced or
    Unauthorized if the session is no longer ours.
    """
    deadline = asyncio.get_running_loop().time() + patience_s
    backoff = Backoff()
    while True:
        try:
            return await control.hello(request)
        except ChoirError as error:
            if says_stop(error):
                raise
            hopeless = isinstance(error, BadInput)
            if hopeless or asyncio.get_running_loop().time() > deadline:
                raise StartupError(f"Control did not let us in: {error.message}") from error
            await asyncio.sleep(backoff.pause_s())
