"""Connect standard input and output with a host through the proxy in HTTPS_PROXY; ssh's ProxyCommand.

Run as a script (`python -I -S proxy_connect.py HOST PORT`), so it imports only the standard library.
"""

import base64
import os
import socket
import sys
import threading
from urllib.parse import urlsplit

CHUNK = 65_536
TIMEOUT_S = 30.0


def open_tunnel(host: str, port: str) -> socket.socket:
    """Return a socket that is connected with the host; raises OSError if the proxy refuses."""
    proxy = urlsplit(os.environ["HTTPS_PROXY"])
    credentials = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
    tunnel = socket.create_connection((proxy.hostname or "", proxy.port or 0), TIMEOUT_S)
    tunnel.sendall(
        f"CONNECT {host}:{port} HTTP/1.1\r\nProxy-Authorization: Basic {credentials}\r\n\r\n".encode()
    )
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        part = tunnel.recv(1)
        if not part:
            raise OSError("the egress proxy closed the connection")
        head += part
    if not head.startswith(b"HTTP/1.1 200 "):
        raise OSError(tunnel.recv(CHUNK).decode(errors="replace"))
    tunnel.settimeout(None)
    return tunnel


def send_input(tunnel: socket.socket) -> None:
    """Send standard input until it ends."""
    while data := os.read(0, CHUNK):
        tunnel.sendall(data)
    tunnel.shutdown(socket.SHUT_WR)


def main(host: str, port: str) -> None:
    """Pass bytes in both directions until the host ends the connection."""
    tunnel = open_tunnel(host, port)
    threading.Thread(target=send_input, args=(tunnel,), daemon=True).start()
    while data := tunnel.recv(CHUNK):
        while data:
            data = data[os.write(1, data) :]


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2])
    except (OSError, KeyError, IndexError) as error:
        sys.exit(f"cannot reach the host through the egress proxy: {error}")
