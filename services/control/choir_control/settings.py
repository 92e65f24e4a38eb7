"""Settings of choird: environment variables, and one JSON object of secrets.

The only module of this service that reads the environment.
"""

from pathlib import Path
from typing import Literal

from pydantic import Field, Json

from choir_common.addresses import HOST_AND_PORT_PATTERN, TlsMode, is_loopback
from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_common.postgres.configured import read_postgres_address
from choir_common.settings import BusServiceSettings, ServiceSecrets
from choir_common.wire.config import ModelConfig


class ControlSettings(BusServiceSettings):
    """Settings of choird."""

    postgres_dsn: str = "postgresql://choir@127.0.0.1:5432/choir"
    """Address of the database, without the password; the embedded stack passes its socket."""
    database_connections: int = Field(default=10, ge=2, le=100)
    """Pool size; ten connections carry the heartbeats of 200 agents on two cores."""
    leader_silence_s: float = Field(default=5.0, ge=3, le=60)
    """Seconds without a word of the leading control process after which Postgres lets a standby lead."""
    http_host: str = "127.0.0.1"
    """Address of the TCP listener; anything but loopback needs an operator token."""
    http_port: int = Field(default=9400, ge=0, le=65535)
    """Port of the TCP listener; 0 picks a free one."""
    tls: TlsMode = "auto"
    """Whether the TCP listener uses TLS; auto: if a certificate is set or the address is not loopback."""
    tls_cert: str = ""
    """PEM file of the certificate and its chain; empty: choird issues one below `tls_dir`."""
    tls_key: str = ""
    """PEM file of that certificate's key, without a password."""
    tls_names: str = ""
    """Further names or addresses, separated by commas, in the certificate that choird issues for itself."""
    web_addresses: str = ""
    """Addresses of the web page behind a reverse proxy, separated by commas, such as
    https://home.example/choir; `choirctl web` prints links for the first."""
    web_push_allow: str = ""
    """Push services of the own network to which notifications of the web page may be sent, as host:port or
    networks, separated by commas; those on the internet need no entry."""
    control_plane: Literal["uds", "http"] = "uds"
    """How agents reach control: over their own Unix socket (same host), or over TCP."""
    control_endpoint: str = ""
    """Address of the TCP listener for agents (control_plane http); empty: the local address."""
    runtime: Literal["process", "docker", "kubernetes"] = "process"
    """How agents run: confined child processes, hardened containers, or pods of a Kubernetes cluster."""
    agent_image: str = "choir-agent:local"
    """Image of the docker and kubernetes runtimes."""
    agent_network: str = ""
    """Network that the agents' containers join (docker runtime); empty: the engine's default bridge."""
    agent_memory_mb: int = Field(default=1024, ge=64)
    """Memory limit of an agent's container with all its tools, in MB; a compiler takes a few hundred."""
    agent_cpus: float = Field(default=0, ge=0)
    """CPU limit of an agent with all its tools, in cores. 0: one in a container; all but one as a process,
    where a cgroup is delegated to Choir."""
    agent_pids: int = Field(default=512, ge=32)
    """Limit of processes and threads in an agent's container; stops a fork bomb, not a parallel build."""
    kubernetes_namespace: str = ""
    """Namespace of the agents' pods (kubernetes runtime); empty: that of control's own pod."""
    kubernetes_claim: str = Field(
        default="choir-home", pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
    )
    """PersistentVolumeClaim with the state directory (kubernetes runtime). The pod of an agent mounts its own
    directories of that volume."""
    kubernetes_claim_path: str = Field(default="", pattern=r"^[A-Za-z0-9_-]*$")
    """Name of the state directory in that volume; empty: the volume's root (kubernetes runtime)."""
    build_memory_mb: int = Field(default=2048, ge=128)
    """Memory limit of a build (docker and kubernetes runtimes), in MB; a large compiler takes 1 or 2 GB."""
    build_within_s: float = Field(default=1_800, gt=0)
    """Timeout of each part of a build (docker runtime) or of the whole (kubernetes runtime), in seconds; a
    slow package mirror takes minutes."""
    build_repository: str = Field(default="", pattern=r"^([a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)+)?$")
    """Image repository to which Jobs push agents' images, such as registry.example/choir/agents (kubernetes
    runtime); empty: tools and skills are directories, and no Dockerfile is executed."""
    build_namespace: str = Field(
        default="choir-builds", pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
    )
    """Namespace of the Jobs that build images (kubernetes runtime)."""
    builder_image: str = "choir-builder:local"
    """Image of the Jobs that build images (kubernetes runtime)."""
    build_secret: str = Field(
        default="choir-registry", pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"
    )
    """Secret in `build_namespace` with the registry's `.dockerconfigjson` and, for an authority of its own,
    `ca.crt` (kubernetes runtime); it may be absent."""
    build_seccomp_profile: str = Field(default="", pattern=r"^([A-Za-z0-9_][A-Za-z0-9._/-]*)?$")
    """File below the kubelet's seccomp directory on every node that allows user namespaces and mounts; empty:
    builds run without a seccomp profile (kubernetes runtime)."""
    build_cpus: float = Field(default=2.0, gt=0)
    """CPU limit of a build, in cores (kubernetes runtime)."""
    build_disk_mb: int = Field(default=10_240, ge=1_024)
    """Disk limit of a build, in MB; it needs about three times the image's size (kubernetes runtime)."""
    agents_stop_s: float = Field(default=45.0, ge=0)
    """Time for agents to summarize and stop when choird stops, in seconds; 0 leaves them to be resumed.
    45 s cover the 15 s for an open turn and the 30 s for the summary.
    """
    keep_log: bool = False
    """Also write choird.log below the state directory; for deployments without a supervisor."""
    gateway_endpoint: str = ""
    """Address of the gateway's console API; empty: the embedded stack's socket."""
    browser_endpoint: str = ""
    """Address from which the browser service's files are fetched; empty: the embedded stack's socket."""
    browser_optional: bool = False
    """Whether the browser service may be absent without a failure: with docker compose it is a profile."""
    egress_endpoint: str = ""
    """Address of the egress service, through which agents reach the network; empty or `off`: they connect
    without it, from the network in which they run."""
    egress_agents: str = Field(default="", pattern=f"^$|{HOST_AND_PORT_PATTERN}")
    """host:port at which agents in pods reach the egress service."""
    default_model: Json[ModelConfig] | None = None
    """Value of `models.default` when config.json has none: a detected provider, or the rehearsal model."""

    @property
    def gateway_address(self) -> str:
        """Return the gateway's address."""
        return self.gateway_endpoint or f"unix://{self.home}/socks/gateway.sock"

    @property
    def browser_address(self) -> str:
        """Return the browser service's address."""
        return self.browser_endpoint or f"unix://{self.home}/socks/browser/browser.sock"

    @property
    def egress_address(self) -> str:
        """Return the egress service's address; empty if agents connect without it."""
        return "" if self.egress_endpoint == "off" else self.egress_endpoint

    def database_address(self, secrets: "ControlSecrets") -> tuple[str, str | None]:
        """Return the database's address and password; `postgres` in config.json takes precedence.

        Raises StartupError for an invalid section, or when its secret is not set.
        """
        configured = read_postgres_address(self.config_file, secrets.secrets)
        return (
            (configured.dsn, configured.password)
            if configured
            else (self.postgres_dsn, secrets.postgres_password)
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
    def audit_keys(self) -> Path:
        """Return the path of audit-keys.json, the keys that sign the logs."""
        return self.home / "audit-keys.json"

    @property
    def known_hosts(self) -> Path:
        """Return the path of Choir's known_hosts file, edited by people and used with the user's own."""
        return self.home / "known_hosts"

    @property
    def control_socket(self) -> Path:
        """Return the path of the host endpoint's Unix socket."""
        return self.home / "socks" / "choird.sock"

    @property
    def tls_dir(self) -> Path:
        """Return the directory of the certificates that choird issues for itself."""
        return self.home / "tls"

    def agent_socket_dir(self, agent_id: str) -> Path:
        """Return the directory (mode 0700) of one agent's own socket."""
        return self.home / "socks" / "agents" / agent_id


class ControlSecrets(ServiceSecrets):
    """Secrets of choird; the supervisor or the setup service writes this object."""

    postgres_password: str | None = Field(default=None, repr=False)
    nats_key: str | None = Field(default=None, repr=False)
    """Seed of control's nkey; None if NATS needs none."""
    operator_token: str | None = Field(default=None, repr=False)
    gateway_token: str | None = Field(default=None, repr=False)
    """Token of control at the gateway, and of the gateway at control, where it opens messages' files only."""
    egress_token: str | None = Field(default=None, repr=False)
    """Token of control at the egress service; None if it is reached by a Unix socket."""
    egress_certificate: str | None = None
    """The egress service's own certificate, as PEM: the only one that control and agents trust for it."""
    secrets: dict[str, str] = Field(default_factory=dict, repr=False)
    """Named secrets of the resources that agents use, as secrets.json had them at startup."""
    supplied: dict[str, str] = Field(default_factory=dict, repr=False)
    """Secrets that the deployment adds to secrets.json, e.g. an API key; `secret apply` keeps them."""

    def values(self) -> list[str]:
        """Return every value, for the redactor."""
        own = (self.postgres_password, self.nats_key, self.operator_token, self.gateway_token)
        others = (self.egress_token, *self.secrets.values(), *self.supplied.values())
        return [value for value in (*own, *others) if value]


def check_exposure(settings: ControlSettings, secrets: ControlSecrets) -> None:
    """Refuse to serve other machines without an operator token, or without TLS.

    Raises StartupError.
    """
    if is_loopback(settings.http_host):
        return
    if settings.tls == "off":
        raise StartupError(
            _(
                "CHOIR_HTTP_HOST is {http_host}, which other machines can reach, and CHOIR_TLS is off: "
                "tokens would be sent unencrypted. Leave CHOIR_TLS at auto, or listen on 127.0.0.1."
            ).format(http_host=settings.http_host)
        )
    if secrets.operator_token:
        return
    raise StartupError(
        _(
            "CHOIR_HTTP_HOST is {http_host}, which other machines can reach, but there is no "
            "operator token. Add operator_token to the secrets, or listen on 127.0.0.1."
        ).format(http_host=settings.http_host)
    )
