"""The identity files that an agent sees under /choir.

USER.md comes from the global repository alone. SOUL.md and SOUL-CORE.md come from the agent's
repository if it has them, or else from the global one. Files that neither has come from the defaults
in this package.
"""

import os
from importlib.resources import files
from pathlib import Path

import orjson

from choir_common.errors import Unavailable
from choir_common.i18n import _

SHARED_FILES = ("USER.md",)
AGENT_FILES = ("SOUL.md", "SOUL-CORE.md")
MAX_BYTES = 200_000
DEFAULTS = "choir_control.configuration.defaults"


def write_identity_files(home: Path, agent_id: str, image_version: str) -> Path:
    """Write the agent's identity directory and return its path. Blocking: run it in a thread.

    Raises Unavailable if the directory cannot be written.
    """
    shared = home / "repos" / "global" / "identity"
    personal = home / "repos" / "agents" / agent_id / "identity"
    target = home / "agents" / agent_id / "choir"
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name in SHARED_FILES:
            _write(target / name, _first(name, shared))
        for name in AGENT_FILES:
            _write(target / name, _first(name, personal, shared))
        version = {"agent_id": agent_id, "image_version": image_version}
        _write(target / "version.json", orjson.dumps(version))
    except OSError as error:
        raise Unavailable(
            _("Cannot write the identity of {agent_id} in {target}: {error}.").format(
                agent_id=agent_id, target=target, error=error
            )
        ) from error
    return target


def _first(name: str, *directories: Path) -> bytes:
    for directory in directories:
        path = directory / name
        # A link in a repository could point at any file of the host.
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                return file.read(MAX_BYTES)
    return (files(DEFAULTS) / name).read_bytes()


def _write(path: Path, content: bytes) -> None:
    # Renamed at the end, so that a reader never sees a partial file.
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(content)
    partial.chmod(0o444)
    os.replace(partial, path)  # noqa: PTH105 the atomic rename is the point
