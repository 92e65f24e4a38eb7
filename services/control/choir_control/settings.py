"""What choird is told from outside: the environment, and one JSON object of secrets.

Read by `__main__`; passed to `app`. The only reader of the environment in this service.
"""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, Json

from choir_common.errors import StartupError
from choir_common.http.tcp_address import TlsMode, is_loopback
from choir_common.postgres.configured import configured_postgres
from choir_common.settings import ServiceSettings
from choir_common.wire.config import ModelConfig


class ControlSettings(ServiceSettings):
    """Settings of choird."""

    postgres_dsn: str = "postgresql://choir@127.0.0.1:5432/choir"
    """Where the truth is kept, without the password; the embedded stack passes its socket."""
    database_connections: int = Field(default=10, ge=2, le=100)
    """Pool size; ten carry the heartbeats of 200 agents on two cores."""
    http_host: str = "127.0.0.1"
    """Address of the TCP door; anything but loopback needs an operator token."""
    http_port: int = Field(default=9400, ge=0, le=65535)
    """Port of the TCP door (spec 12.1); 0 takes a free one."""
    tls: TlsMode = "auto"
    """Whether the TCP door speaks TLS. auto: with a certificate, and wherever other machines reach it."""
    tls_cert: str = ""
    """PEM file of the certificate, with what leads to its authority; empty: one is made below tls_dir."""
    tls_key: str = ""
    """PEM file of that certificate's key, without a password."""
    tls_names: str = ""
    """Further names or addresses, with commas between, of the certificate choird makes for itself."""
    control_plane: Literal["uds", "http"] = "uds"
    """How agents reach control: by a socket of their own (one host), or at the TCP door."""
    control_endpoint: str = ""
    """Address of the TCP door as agents know it (control_plane http); empty: as this machine does."""
    runtime: Literal["process", "docker"] = "process"
    """How agents run: confined child processes, or hardened containers."""
    agent_image: str = "choir-agent:local"
    """The image of the docker runtime."""
    agent_network: str = ""
    """Network that agents' containers join (docker runtime); empty is the engine's own bridge."""
    agent_memory_mb: int = Field(default=1024, ge=64)
    """Memory of one agent's container with all its tools, in MB; a compiler takes a few hundred."""
    agent_cpus: float = Field(default=1.0, gt=0)
    """Cores of one agent's container; less than two leave room for control on a small host."""
    agent_pids: int = Field(default=512, ge=32)
    """Processes and threads in one agent's container; stops a fork bomb, not a parallel build."""
    build_memory_mb: int = Field(default=2048, ge=128)
    """Memory of one step of an image's build (docker runtime), in MB; a large compiler takes 1 or 2 GB."""
    build_within_s: float = Field(default=1_800, gt=0)
    """How long each part of a build may take (docker runtime); a slow mirror of packages takes minutes."""
    agents_stop_s: float = Field(default=45.0, ge=0)
    """How long agents may take to sum up and stop when choird stops, in seconds; 0 leaves them to be
    resumed. A turn's fifteen and a summary's thirty are what people still wait for."""
    keep_log: bool = False
    """Write choird.log below the state directory, too: where no supervisor reads standard error."""
    gateway_endpoint: str = ""
    """Where the console is served; empty means the embedded stack's own socket."""
    browser_endpoint: str = ""
    """Where the browser hands over files; empty means the embedded stack's own socket."""
    default_model: Json[ModelConfig] | None = None
    """What `models.default` is when config.json has none: a detected provider, or rehearsal."""

    @property
    def console_endpoint(self) -> str:
        """Return the gateway's address."""
        return self.gateway_endpoint or f"unix://{self.home}/socks/gateway.sock"

    @property
    def browser_door(self) -> str:
        """Return the browser's address."""
        return self.browser_endpoint or f"unix://{self.home}/socks/browser.sock"

    def postgres(self, secrets: "ControlSecrets") -> tuple[str, str | None]:
        """Return the address of the database and its password; what config.json names counts most.

        Raises StartupError for a section that does not fit, or whose secret is not set.
        """
        found = configured_postgres(self.config_file, secrets.secrets)
        return (
            (found.dsn, found.password) if found else (self.postgres_dsn, secrets.postgres_password)
        )

    @property
    def config_file(self) -> Path:
        """Return the path of config.json."""
        return self.home / "config.json"

    @property
    def secrets_json(self) -> Path:
        """Return the path of secrets.json, which `secret apply` reads again."""
        return self.home / "secrets.json"

    @property
    def known_hosts(self) -> Path:
        """Return the file of ssh servers' keys, beside those this user knows; people write it."""
        return self.home / "known_hosts"

    @property
    def control_socket(self) -> Path:
        """Return the path of the host endpoint's Unix socket."""
        return self.home / "socks" / "choird.sock"

    @property
    def tls_dir(self) -> Path:
        """Return the directory of the certificates that choird makes for itself."""
        return self.home / "tls"

    def agent_socket_dir(self, agent_id: str) -> Path:
        """Return the 0700 directory that holds one agent's own socket."""
        return self.home / "socks" / "agents" / agent_id


class ControlSecrets(BaseModel):
    """Secrets of choird; the supervisor or the setup service writes this object."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    postgres_password: str | None = Field(default=None, repr=False)
    nats_token: str | None = Field(default=None, repr=False)
    operator_token: str | None = Field(default=None, repr=False)
    secrets: dict[str, str] = Field(default_factory=dict, repr=False)
    """Named secrets of the resources that agents are bound to, as secrets.json had them at the start."""
    supplied: dict[str, str] = Field(default_factory=dict, repr=False)
    """What the deployment adds to secrets.json and an apply must not lose: a key of its environment."""

    def values(self) -> list[str]:
        """Return every value, for the redactor."""
        own = (self.postgres_password, self.nats_token, self.operator_token)
        return [value for value in (*own, *self.secrets.values(), *self.supplied.values()) if value]


def check_exposure(settings: ControlSettings, secrets: ControlSecrets) -> None:
    """Refuse to serve other machines without an operator token, or without TLS.

    Raises StartupError.
    """
    if is_loopback(settings.http_host):
        return
    if settings.tls == "off":
        raise StartupError(
            f"CHOIR_HTTP_HOST is {settings.http_host}, which other machines can reach, and CHOIR_TLS is "
            "off: tokens would cross the network readably. Leave CHOIR_TLS at auto, or listen on "
            "127.0.0.1."
        )
    if secrets.operator_token:
        return
    raise StartupError(
        f"CHOIR_HTTP_HOST is {settings.http_host}, which other machines can reach, but there is no "
        "operator token. Add operator_token to the secrets, or listen on 127.0.0.1."
    )
