"""The Choir that a client talks to, from arguments, the environment and the state directory.

The only module of the clients that reads environment variables.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from choir_common.errors import InvalidRequest, NotFound, Unavailable
from choir_common.i18n import _
from choir_common.secret_reader import salvage_secrets

HOME_NAME = ".choir.d"
DEFAULT_PORT = 9400
LOOPBACK = ("localhost", "127.0.0.1", "::1")
TOKEN_SECRET = "operator-token"  # noqa: S105 - the name of a secret, not its value


@dataclass(frozen=True, slots=True)
class Target:
    """A Choir installation: its state directory and its address."""

    home: Path
    url: str | None
    """The HTTP address; None if it is reached through its Unix socket."""
    given_token: str | None = field(default=None, repr=False)
    """The operator token; None: from CHOIR_TOKEN or the state directory."""
    given_ca_file: Path | None = None
    """CA certificates (PEM) to verify HTTPS with; None: from CHOIR_CA_FILE or the state directory."""

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

        They come from the file that was given or CHOIR_CA_FILE names, or, for an address of this machine,
        from the state directory. Raises NotFound if a named file cannot be read.
        """
        place = urlsplit(self.url or "")
        if place.scheme != "https":
            return None
        file, origin = self.given_ca_file, "The argument ca_file"
        if file is None and (env_path := read_env("CHOIR_CA_FILE")) is not None:
            file, origin = Path(env_path).expanduser(), "CHOIR_CA_FILE"
        # the CA of this state directory only signs the certificate of the Choir on this machine
        if file is None and place.hostname not in LOOPBACK:
            return None
        try:
            return (file or self.ca_file).read_text("ascii")
        except (OSError, UnicodeDecodeError) as error:
            if file is None:
                return None
            raise NotFound(
                _("{origin} names {file}, which cannot be read: {error}.").format(
                    origin=origin, file=file, error=error
                )
            ) from error

    def token(self) -> str | None:
        """Return the operator token, which only HTTP needs: the given one, CHOIR_TOKEN, or from secrets.json.

        A syntax error elsewhere in that file does not lock the operator out.
        """
        if self.url is None:
            return None
        secrets_file = self.home / "secrets.json"
        token = self.given_token or read_env("CHOIR_TOKEN")
        return token or salvage_secrets(secrets_file).get(TOKEN_SECRET)

    def check_address(self) -> None:
        """Raise InvalidRequest unless the address is one of HTTP or none is given."""
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise InvalidRequest(
                _("`{url}` is not a valid address. Write http://host:port.").format(url=self.url)
            )

    def check_socket(self) -> None:
        """Raise Unavailable if the Unix socket is needed and does not exist."""
        if self.url is None and not self.socket.exists():
            raise Unavailable(
                _(
                    "Choir does not run here: there is no socket at {socket}. Start it with "
                    "`choirctl up`; for a Choir elsewhere, name its address with --url or CHOIR_URL, "
                    "or its state directory with --home or CHOIR_HOME."
                ).format(socket=self.socket)
            )


def find_target(
    home: Path | None = None,
    url: str | None = None,
    *,
    token: str | None = None,
    ca_file: Path | None = None,
) -> Target:
    """Return the Choir that the arguments or else the environment select.

    Raises NotFound if the user has no home directory to fall back to.
    """
    url = url or read_env("CHOIR_URL")
    place = Target(find_home(home), url.rstrip("/") if url else None, token, ca_file)
    if place.url is None and (token or read_env("CHOIR_TOKEN")) and not place.socket.exists():
        # only HTTP needs a token, so a token without a socket means a Choir in containers on this machine
        scheme = "https" if place.ca_file.exists() else "http"
        port = read_env("CHOIR_HTTP_PORT") or DEFAULT_PORT
        return Target(place.home, f"{scheme}://127.0.0.1:{port}", token, ca_file)
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
            _(
                "There is no home directory to keep Choir's state in. Name a directory with "
                "--home or CHOIR_HOME."
            )
        ) from error
    return home.absolute()


def read_env(name: str) -> str | None:
    """Return an environment variable, or None if it is unset or empty."""
    return os.environ.get(name) or None
