"""Creation of the state directory with a first configuration. Called by `init` and `up`.

Existing files are never changed, and new ones are created atomically.
"""

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_common.target import TOKEN_SECRET
from choir_common.wire.config import (
    AgentConfig,
    AgentDefaults,
    Config,
    DmConfig,
    GatewayConfig,
    WorkspaceConfig,
)
from choir_local.sockets import check_socket_path

DIRECTORIES = (  # parents first: each is made with mode 0700
    "repos",
    "repos/global",
    "repos/agents",
    "socks",
    "socks/agents",
    "logs",
    "logs/archive",
    "data",
    "run",
    "workspaces",
    "workspaces/main",
)
TOKEN_BYTES = 32
# The longest possible one: an agent id has at most 41 characters.
LONGEST_SOCKET = f"socks/agents/{'a' * 41}/choir.sock"


@dataclass(frozen=True, slots=True)
class CreatedPaths:
    """The files and directories that `create_state_directory` created; none if all existed."""

    home: Path
    paths: tuple[Path, ...]


def create_state_directory(home: Path) -> CreatedPaths:
    """Create the missing parts of the state directory and leave existing ones unchanged.

    Raises StartupError if the path is too long for Unix sockets, or cannot be created.
    """
    check_path_length(home)
    paths: list[Path] = []
    try:
        for path in (home, *(home / name for name in DIRECTORIES)):
            if not path.is_dir():
                path.mkdir(mode=0o700, parents=path == home)
                paths.append(path)
        for name, text in (
            ("config.json", initial_config(home)),
            ("secrets.json", initial_secrets()),
        ):
            if _create(home / name, text):
                paths.append(home / name)
    except OSError as error:
        raise StartupError(
            _(
                "Cannot make the state directory {home}: {filename}: {strerror}. Choose another "
                "with --home or CHOIR_HOME."
            ).format(home=home, filename=error.filename, strerror=error.strerror)
        ) from error
    return CreatedPaths(home, tuple(paths))


def check_path_length(home: Path) -> None:
    """Raise StartupError if the state directory's path is too long for the Unix sockets in it.

    The message contains the longest socket path, its length and the limit.
    """
    check_socket_path(home / LONGEST_SOCKET)


def initial_config(home: Path) -> str:
    """Return a config.json with one agent on the console; its model is selected at each start."""
    config = Config(
        agents={
            "main": AgentConfig(
                defaults=AgentDefaults(workspace="main", llm="default", dm="console"),
                autostart=True,
            )
        },
        workspaces={"main": WorkspaceConfig(path=str(home / "workspaces" / "main"))},
        gateways={"console": GatewayConfig(type="console")},
        dms={"console": DmConfig(gateway="console", user_id="operator", admin=True)},
    )
    return config.model_dump_json(indent=2, exclude_defaults=True) + "\n"


def initial_secrets() -> str:
    """Return a secrets.json with a new random operator token."""
    return f'{{\n  "{TOKEN_SECRET}": "{secrets.token_urlsafe(TOKEN_BYTES)}"\n}}\n'


def _create(path: Path, text: str) -> bool:
    """Create `path` atomically with mode 0600; return False if it existed already."""
    if path.exists():
        return False
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, path)  # unlike a rename, never replaces a file created in the meantime
    except FileExistsError:
        return False
    finally:
        partial.unlink()
    return True
