"""Ask a service whether it is ready: `python -I -S health.py PORT [PATH [tls]]`; exits 0 for a 200.

The health check of every image. Plain sockets: importing an HTTP library would cost more than the question.
"""

import importlib
import socket
import sys

DEADLINE_S = 3.0


def main() -> int:
    """Ask and tell."""
    port, path = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "/readyz"
    try:
        with socket.create_connection(("127.0.0.1", port), DEADLINE_S) as connection:
            connection.settimeout(DEADLINE_S)
            spoken = _over_tls(connection) if sys.argv[3:] == ["tls"] else connection
            request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            spoken.sendall(request.encode())
            answer = spoken.makefile("rb").read(16_000)
    except OSError as error:
        print(error)  # noqa: T201 - the engine keeps it beside the result
        return 1
    print(answer.decode(errors="replace")[:500])  # noqa: T201
    return 0 if answer.split(b" ", 2)[1:2] == [b"200"] else 1


def _over_tls(connection: socket.socket) -> socket.socket:
    """Speak TLS with this container's own port; no secret is sent, so nobody's name is asked for.

    The authority's file is for the owner of the home, and a health check runs as a root that may not read it.
    """
    ssl = importlib.import_module("ssl")  # 20 ms that the other services' checks are spared
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    found: socket.socket = context.wrap_socket(connection)
    return found


if __name__ == "__main__":
    sys.exit(main())
