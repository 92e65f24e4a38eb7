"""Settings of the egress service; the only module that reads its environment."""

from pathlib import Path

from pydantic import Field

from choir_common.addresses import HOST_AND_PORT_PATTERN
from choir_common.settings import ServiceSecrets, ServiceSettings


class EgressSettings(ServiceSettings):
    """Settings that an operator can change."""

    egress_allow: str = ""
    """Addresses that agents' commands may reach although they are not public: `host:port` or networks,
    comma-separated. None by default: they belong to this machine and its neighbours."""
    egress_connections: int = Field(default=256, ge=1)
    """Connections that one agent may have open; a package manager opens 50."""
    egress_idle_s: float = Field(default=600.0, ge=1)
    """Seconds without a byte after which a connection is closed."""
    egress_http: str | None = Field(default=None, pattern=HOST_AND_PORT_PATTERN)
    """host:port for health checks and metrics; with `egress_agents` for control's requests too, over TLS."""
    egress_agents: str | None = Field(default=None, pattern=HOST_AND_PORT_PATTERN)
    """host:port for agents on other machines (pods), over TLS; without it, each agent has a Unix socket."""

    @property
    def control_socket(self) -> Path:
        """Return the Unix socket for control's requests; no agent sees its directory."""
        return self.home / "socks" / "agents" / "egress" / "control.sock"

    def proxy_socket(self, agent_id: str) -> Path:
        """Return the Unix socket of one agent's proxy, in the directory that this agent sees."""
        return self.home / "socks" / "agents" / agent_id / "proxy.sock"


class EgressSecrets(ServiceSecrets):
    """Secrets of the TCP ports; control sends the agents' keys."""

    certificate: str = ""
    """The service's own certificate, as PEM. It is no secret, but belongs to its key."""
    private_key: str = Field(default="", repr=False)
    token: str = Field(default="", repr=False)
    """Token of control, which sends the agents' keys."""

    def values(self) -> list[str]:
        """Return the token and the private key, for the redactor."""
        return [value for value in (self.token, self.private_key) if value]
