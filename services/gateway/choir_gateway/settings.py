"""The gateway's settings; the only code that reads its environment."""

from pathlib import Path

from pydantic import Field, IPvAnyAddress

from choir_common.addresses import HOST_AND_PORT_PATTERN
from choir_common.settings import BusServiceSettings, ServiceSecrets


class GatewaySettings(BusServiceSettings):
    """The settings of the gateway service."""

    gateway_socket: Path | None = None
    """Unix socket of the console and health routes; the default is `socks/gateway.sock` in the home."""
    gateway_http: str | None = Field(default=None, pattern=HOST_AND_PORT_PATTERN)
    """TCP address `host:port`, used besides `gateway_socket` if that is set, otherwise instead of it.

    The first is for webhooks of an embedded stack, the second for containers. Every request except
    Telegram's own then needs the gateway token, which control has.
    """
    gateway_ip: IPvAnyAddress | None = None
    """IP address at which control reaches this process; set where several gateways share the channels.

    One of them works, by a lease of control, and the others are its standbys. They need a common directory
    of files (`console_files` and what is beside it).
    """
    console_files: Path | None = None
    """Directory of the console's files; the default is `spool/console` in the home."""
    console_file_mb: int = Field(default=50, ge=1, le=2_000)
    """The largest file of the console, in MB; Telegram bots have the same limit."""
    console_files_mb: int = Field(default=1_000, ge=1)
    """The size of all files, in MB. A full spool rejects uploads and drops agents' oldest files."""
    console_files_days: float = Field(default=7.0, gt=0)
    """Days until a file is deleted; an agent may be stopped over a holiday before it fetches one."""

    control_endpoint: str | None = None
    """Address of control, for the files of messages: `unix://` or `http(s)://`.

    The default is control's socket in the home.
    """

    @property
    def control(self) -> str:
        """Return the address of control."""
        return self.control_endpoint or f"unix://{self.home / 'socks' / 'choird.sock'}"

    @property
    def socket(self) -> Path:
        """Return the Unix socket of the routes; unused with `gateway_http` alone."""
        return self.gateway_socket or self.home / "socks" / "gateway.sock"

    @property
    def spool(self) -> Path:
        """Return the directory of the console's files."""
        return self.console_files or self.home / "spool" / "console"


class GatewaySecrets(ServiceSecrets):
    """The secrets of the gateway service."""

    nats_key: str | None = Field(default=None, repr=False)
    """Seed of the gateway's nkey; None if NATS needs none."""
    gateway_token: str | None = Field(default=None, repr=False)
    """Required from TCP callers, and from control when it sends tokens; control has it, too.

    Without it neither is accepted. At control it opens the files of messages and nothing else.
    """
    secrets: dict[str, str] = Field(default_factory=dict, repr=False)
    """The bots' tokens at startup, by their names in config.json; control sends later ones."""

    def values(self) -> list[str]:
        """Return every secret value, for the redactor."""
        own = (self.nats_key, self.gateway_token)
        return [value for value in (*own, *self.secrets.values()) if value]
