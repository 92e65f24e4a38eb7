"""Become the owner of CHOIR_HOME, then run the command: how control and choirctl begin in control's image.

Control must make sockets and files that the person on the host can use, and reach the engine's socket; it
needs no more of root than the change itself. Settings that `prepare` worked out are put into the environment
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
    """Return the group that may use the engine's socket, if it is there."""
    try:
        found = ENGINE.stat()
    except OSError:
        return []
    return [found.st_gid] if stat.S_ISSOCK(found.st_mode) else []


def main() -> None:
    """Change the user and become the command."""
    home = Path(os.environ["CHOIR_HOME"])
    try:
        owner = home.stat()
        told = json.loads(SETTINGS.read_text())
    except OSError as error:
        sys.exit(f"cannot enter: {error}. The service `setup` makes both; did it succeed?")
    os.environ.update({name: value for name, value in told.items() if name not in os.environ})
    if os.geteuid() == 0:  # not so where it was entered before
        os.setgroups(engine_groups())
        os.setgid(owner.st_gid)
        os.setuid(owner.st_uid)
    os.environ["HOME"] = str(home)
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - no shell is meant


if __name__ == "__main__":
    main()
