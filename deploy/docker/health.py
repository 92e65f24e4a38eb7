"""Ask a service whether it is ready: `python -I -S health.py PORT [PATH]`; exits 0 for a 200.

The health check of every image. Plain sockets: importing an HTTP library would cost more than the question.
"""

import socket
import sys

DEADLINE_S = 3.0


def main() -> int:
    """Ask and tell."""
    port, path = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "/readyz"
    try:
        with socket.create_connection(("127.0.0.1", port), DEADLINE_S) as connection:
            connection.settimeout(DEADLINE_S)
            request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            connection.sendall(request.encode())
            answer = connection.makefile("rb").read(16_000)
    except OSError as error:
        print(error)  # noqa: T201 - the engine keeps it beside the result
        return 1
    print(answer.decode(errors="replace")[:500])  # noqa: T201
    return 0 if answer.split(b" ", 2)[1:2] == [b"200"] else 1


if __name__ == "__main__":
    sys.exit(main())
