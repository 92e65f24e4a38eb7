"""Health check of a service: `python -I -S health.py PORT [PATH [tls]]`; exits with 0 for status 200.

Used in every image. It uses plain sockets, because importing an HTTP library costs more than the request. The
engine does not restart an unhealthy container. So this kills a service that accepts connections and does not
answer /livez three times in a row: the container then ends, and the engine restarts it.
"""

import contextlib
import os
import signal
import socket
import sys

DEADLINE_S = 3.0
MAX_FAILURES = 3
FAILURES = "/tmp/choir-unanswered"  # noqa: S108 - a tmpfs of this container, which nobody else can reach
# The kernel protects process 1 from signals of its own container, so a service runs under an init.
INITS = ("docker-init", "tini")


def main(arguments: list[str], init: int = 1, inits: tuple[str, ...] = INITS) -> int:
    """Check the service and return the exit code; `init` is the parent process of the service."""
    port, path = int(arguments[0]), arguments[1] if len(arguments) > 1 else "/readyz"
    tls = arguments[2:] == ["tls"]
    try:
        _ask(port, "/livez", tls)
    except TimeoutError:
        _count_failure(init, inits)
        print("/livez timed out")  # noqa: T201 - the engine keeps it beside the result
        return 1
    except OSError as error:
        print(error)  # noqa: T201
        return 1
    with contextlib.suppress(FileNotFoundError):
        os.unlink(FAILURES)  # noqa: PTH108 - pathlib doubles the time of a check
    try:
        answer = _ask(port, path, tls)
    except OSError as error:
        print(error)  # noqa: T201
        return 1
    print(answer.decode(errors="replace")[:500])  # noqa: T201
    return 0 if answer.split(b" ", 2)[1:2] == [b"200"] else 1


def _ask(port: int, path: str, tls: bool) -> bytes:
    with socket.create_connection(("127.0.0.1", port), DEADLINE_S) as connection:
        connection.settimeout(DEADLINE_S)
        spoken = _over_tls(connection) if tls else connection
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        spoken.sendall(request.encode())
        return spoken.makefile("rb").read(16_000)


def _count_failure(init: int, inits: tuple[str, ...]) -> None:
    """Count an unanswered /livez, and kill the service after `MAX_FAILURES` of them."""
    with open(FAILURES, "ab+") as file:  # noqa: PTH123
        file.write(b".")
        count = file.tell()
    with open(f"/proc/{init}/comm") as file_of_init:  # noqa: PTH123
        name = file_of_init.read().strip()
    if count < MAX_FAILURES or name not in inits:
        return
    os.unlink(FAILURES)  # noqa: PTH108
    with open(f"/proc/{init}/task/{init}/children") as children:  # noqa: PTH123
        pids = [int(pid) for pid in children.read().split()]
    for pid in pids:
        if pid != os.getpid():
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                _kill_as_its_owner(pid)


def _kill_as_its_owner(pid: int) -> None:
    """Kill a process of another user, too: control's check runs as root without CAP_KILL.

    This changes the user of the current process permanently, so it must be the last step of a check.
    """
    with open(f"/proc/{pid}/status") as status:  # noqa: PTH123
        (owner,) = [int(line.split()[1]) for line in status if line.startswith("Uid:")]
    if os.geteuid() == 0 and owner != 0:
        os.setuid(owner)
    os.kill(pid, signal.SIGKILL)


def _over_tls(connection: socket.socket) -> socket.socket:
    """Connect with TLS to this container's own port; no secret is sent, so the certificate is not verified.

    The CA file is readable only by the owner of the home, and the check runs as a root user that may not read
    it.
    """
    import ssl  # noqa: PLC0415 - 20 ms that checks without TLS save

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(connection)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
