"""Entry point of the images of control and egress: become the owner of CHOIR_HOME, then run the command.

Both create sockets that agents open as this user. Control also creates files that the user on the host can
access, and opens the engine's socket. They need root only for this change of user. Settings that `prepare`
computed for control are added to the environment here.
"""

import json
import os
import stat
import sys
from pathlib import Path

ENGINE = Path("/var/run/docker.sock")
SETTINGS = Path("/run/choir-secrets/settings.json")
SOCKETS = "socks/agents"
"""All that egress sees of CHOIR_HOME; `setup` gives this directory to the owner of CHOIR_HOME."""


def engine_groups() -> list[int]:
    """Return the group that may use the engine's socket, if the socket exists."""
    try:
        found = ENGINE.stat()
    except OSError:
        return []
    return [found.st_gid] if stat.S_ISSOCK(found.st_mode) else []


def mounted_directory(home: Path) -> Path:
    """Return the directory whose owner to become."""
    sockets = home / SOCKETS
    # root without capabilities may not look into the home, where control would find no mount anyway
    return sockets if os.path.ismount(sockets) else home


def computed_settings() -> dict[str, str]:
    """Return the settings that `prepare` computed for this image; only control's volume has some."""
    if not SETTINGS.parent.exists():
        return {}
    computed: dict[str, str] = json.loads(SETTINGS.read_text())
    return computed


def main() -> None:
    """Change the user and execute the command."""
    home = Path(os.environ["CHOIR_HOME"])
    try:
        owner = mounted_directory(home).stat()
        settings = computed_settings()
    except OSError as error:
        sys.exit(f"cannot enter: {error}. The service `setup` makes both; did it succeed?")
    os.environ.update({name: value for name, value in settings.items() if name not in os.environ})
    if os.geteuid() == 0:  # not root if this process was entered before
        os.setgroups(engine_groups())
        os.setgid(owner.st_gid)
        os.setuid(owner.st_uid)
    os.environ["HOME"] = str(home)
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - no shell is meant


if __name__ == "__main__":
    main()
