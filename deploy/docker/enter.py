"""Entry point of control's image: become the owner of CHOIR_HOME, then run the command.

Control must create sockets and files that the user on the host can access, and open the engine's socket. It
needs root only for this change of user. Settings that `prepare` computed are added to the environment
here.
"""

import json
import os
import stat
import sys
from pathlib import Path

ENGINE = Path("/var/run/docker.sock")
SETTINGS = Path("/run/choir-secrets/settings.json")


def engine_groups() -> list[int]:
    """Return the group that may use the engine's socket, if the socket exists."""
    try:
        found = ENGINE.stat()
    except OSError:
        return []
    return [found.st_gid] if stat.S_ISSOCK(found.st_mode) else []


def main() -> None:
    """Change the user and execute the command."""
    home = Path(os.environ["CHOIR_HOME"])
    try:
        owner = home.stat()
        told = json.loads(SETTINGS.read_text())
    except OSError as error:
        sys.exit(f"cannot enter: {error}. The service `setup` makes both; did it succeed?")
    os.environ.update({name: value for name, value in told.items() if name not in os.environ})
    if os.geteuid() == 0:  # not root if this process was entered before
        os.setgroups(engine_groups())
        os.setgid(owner.st_gid)
        os.setuid(owner.st_uid)
    os.environ["HOME"] = str(home)
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - no shell is meant


if __name__ == "__main__":
    main()
