"""What importing the bus costs a service."""

import subprocess
import sys


def test_the_bus_does_not_load_the_websocket_client_of_nats() -> None:
    code = "import sys, choir_common.bus.client; print('aiohttp' in sys.modules); import aiohttp"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"
