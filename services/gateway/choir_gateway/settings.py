"""The gateway's settings; the only reader of its environment."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from choir_common.addresses import HOST_AND_PORT_PATTERN
from choir_common.settings import ServiceSettings


class GatewaySettings(ServiceSettings):
    """What an operator may set."""

    gateway_socket: Path | None = None
    """Unix socket of the console and health routes; the default is `socks/gateway.sock` in the home."""
    gateway_http: str | None = Field(default=None, pattern=HOST_AND_PORT_PATTERN)
    """host:port: beside `gateway_socket` if that is set (webhooks of an embedded stack), else instead of a
    socket (containers). Every request then needs the operator token, but for Telegram's own."""
    console_files: Path | None = None
    """Where the console's files wait to be fetched; the default is `spool/console` in the home."""
    console_file_mb: int = Field(default=50, ge=1, le=2_000)
    """The largest file of the console, in MB: what a Telegram bot may send as well."""
    console_files_mb: int = Field(default=1_000, ge=1)
    """All of them together; a full spool takes none, and drops the oldest that agents sent."""
    console_files_days: float = Field(default=7.0, gt=0)
    """How long one is kept that nobody fetches; an agent may be stopped over a holiday."""

    control_endpoint: str | None = None
    """Where control has files to send, `unix://` or `http(s)://`; by default its socket in the home."""

    @property
    def control(self) -> str:
        """Return control's endpoint."""
        return self.control_endpoint or f"unix://{self.home / 'socks' / 'choird.sock'}"

    @property
    def socket(self) -> Path:
        """Return where the routes listen, unless on `gateway_http` alone."""
        return self.gateway_socket or self.home / "socks" / "gateway.sock"

    @property
    def spool(self) -> Path:
        """Return where the console's files lie."""
        return self.console_files or self.home / "spool" / "console"


class GatewaySecrets(BaseModel):
    """What this service is told in confidence."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    nats_token: str | None = Field(default=None, repr=False)
    """The bus's token; none where the bus has none."""
    operator_token: str | None = Field(default=None, repr=False)
    """What a request over TCP must show, and control when it brings tokens; without it neither is served."""
    secrets: dict[str, str] = Field(default_factory=dict, repr=False)
    """The bots' tokens to begin with, by the name config.json gives them; control brings later ones."""
