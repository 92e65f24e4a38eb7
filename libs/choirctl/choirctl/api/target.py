"""Selection of the Choir that a command talks to, from options, the environment and the state directory.

Used by every command; the only module of choirctl that reads environment variables.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from choir_common.errors import NotFound
from choirctl.api.secrets_file import salvage_secrets

HOME_NAME = ".choir.d"
DEFAULT_PORT = 9400
LOOPBACK = ("localhost", "127.0.0.1", "::1")
TOKEN_SECRET = "operator-token"  # noqa: S105 - the name of a secret, not its value

Home = Annotated[
    Path | None,
    typer.Option("--home", help="State directory; else CHOIR_HOME, else ~/.choir.d."),
]
Url = Annotated[
    str | None,
    typer.Option("--url", help="Address of control; else CHOIR_URL, else the local socket."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print data as JSON.")]


@dataclass(frozen=True, slots=True)
class Target:
    """A Choir installation: its state directory and its address."""

    home: Path
    url: str | None
    """The HTTP address; None if it is reached through its Unix socket."""

    @property
    def socket(self) -> Path:
        return self.home / "socks" / "choird.sock"

    @property
    def endpoint(self) -> str:
        """The address for `choir_common.http.client`."""
        return self.url or f"unix://{self.socket}"

    @property
    def display_address(self) -> str:
        """The address as it is shown to the user."""
        return self.url or str(self.socket)

    @property
    def download_dir(self) -> Path:
        """The default directory for files that agents send."""
        return self.home / "received"

    @property
    def chat_history(self) -> Path:
        """The lines that people typed in `choirctl chat`."""
        return self.home / "chat_history"

    @property
    def ca_file(self) -> Path:
        """The CA certificate that choird creates for this state directory if it serves HTTPS."""
        return self.home / "tls" / "ca.pem"

    def ca_certificates(self) -> str | None:
        """Return the CA certificates (PEM) to verify HTTPS with; None for those of the system.

        They come from the file CHOIR_CA_FILE, or, for an address of this machine, from the state directory.
        Raises NotFound if CHOIR_CA_FILE cannot be read.
        """
        place = urlsplit(self.url or "")
        if place.scheme != "https":
            return None
        env_path = read_env("CHOIR_CA_FILE")
        # the CA of this state directory only signs the certificate of the Choir on this machine
        if env_path is None and place.hostname not in LOOPBACK:
            return None
        file = Path(env_path).expanduser() if env_path else self.ca_file
        try:
            return file.read_text("ascii")
        except (OSError, UnicodeDecodeError) as error:
            if env_path is None:
                return None
            raise NotFound(f"CHOIR_CA_FILE names {file}, which cannot be read: {error}.") from error

    def token(self) -> str | None:
        """Return the operator token, which only HTTP needs: CHOIR_TOKEN, else from secrets.json.

        A syntax error elsewhere in that file does not lock the operator out.
        """
        if self.url is None:
            return None
        secrets_file = self.home / "secrets.json"
        return read_env("CHOIR_TOKEN") or salvage_secrets(secrets_file).get(TOKEN_SECRET)


def find_target(ctx: typer.Context, home: Path | None = None, url: str | None = None) -> Target:
    """Return the Choir that the command's options, the global options or the environment select.

    They count in this order. Raises NotFound if the user has no home directory to fall back to.
    """
    outer_home, outer_url = ctx.find_root().obj or (None, None)
    url = url or outer_url or read_env("CHOIR_URL")
    place = Target(find_home(home or outer_home), url.rstrip("/") if url else None)
    if place.url is None and read_env("CHOIR_TOKEN") and not place.socket.exists():
        # only HTTP needs a token, so a token without a socket means a Choir in containers on this machine
        scheme = "https" if place.ca_file.exists() else "http"
        port = read_env("CHOIR_HTTP_PORT") or DEFAULT_PORT
        return Target(place.home, f"{scheme}://127.0.0.1:{port}")
    return place


def find_home(option: Path | None) -> Path:
    """Return the absolute state directory: `option`, CHOIR_HOME or ~/.choir.d.

    Raises NotFound if the user has no home directory.
    """
    directory = option or read_env("CHOIR_HOME")
    try:
        home = Path(directory).expanduser() if directory else Path.home() / HOME_NAME
    except RuntimeError as error:
        raise NotFound(
            "There is no home directory to keep Choir's state in. Name a directory with --home or "
            "CHOIR_HOME."
        ) from error
    return home.absolute()


def read_env(name: str) -> str | None:
    """Return an environment variable, or None if it is unset or empty."""
    return os.environ.get(name) or None
