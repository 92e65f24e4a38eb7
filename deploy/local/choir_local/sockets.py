"""Checks of socket paths and ports before anything listens."""

import socket
import sys
from pathlib import Path

from choir_common.errors import StartupError
from choir_common.i18n import _

SUN_PATH = 108 if sys.platform == "linux" else 104  # bytes, including the terminating zero


def check_socket_path(path: Path) -> None:
    """Raise StartupError if a Unix socket path is too long for the kernel.

    The error names the path, its length and what to change.
    """
    length = len(str(path).encode())
    if length >= SUN_PATH:
        raise StartupError(
            _(
                "The socket path {path} is {length} bytes long, and a Unix socket path may have "
                "at most {sun_path}. Choose a shorter state directory with CHOIR_HOME or --home."
            ).format(path=path, length=length, sun_path=SUN_PATH - 1)
        )


def check_port_free(host: str, port: int, setting: str) -> None:
    """Raise StartupError if a TCP port is in use; 0 means any free port.

    The error names the port and the setting that changes it.
    """
    if port:
        listen(host, port, setting).close()


def listen(host: str, port: int, setting: str) -> socket.socket:
    """Return a listening socket; `setting` is the name of the setting for the port.

    Raises StartupError naming the port and the setting.
    """
    # Written by hand: the services' function would load a web server into the supervisor.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise StartupError(
            _(
                "Port {port} on {host} cannot be used: {strerror}. Another program, perhaps "
                "another Choir, listens there; stop it, or choose another port with {setting}."
            ).format(port=port, host=host, strerror=error.strerror, setting=setting)
        ) from error
    return listener
