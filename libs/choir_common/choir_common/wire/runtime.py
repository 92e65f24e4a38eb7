"""Start parameters of an agent process, passed on standard input as one JSON line.

Standard input is used because a token there is visible in no environment, argument list or file.
"""

from pydantic import Field

from choir_common.wire.model import Wire


class AgentBoot(Wire):
    """The agent's identity, control's address and the lease token."""

    agent_id: str
    session_id: str
    epoch: int = Field(ge=1)
    lease_token: str
    endpoint: str
    """Control's address: `unix:///path/choir.sock` or `http(s)://host:port`."""
    ca_pem: str = Field(default="", max_length=50_000)
    """The only certificates trusted for an `https` endpoint; empty: those of the system."""
    workspace: str
    """Path of the workspace directory inside the agent's file system."""
    choir_dir: str
    """Path of the identity directory (`/choir`) inside the agent's file system."""
    image_version: str = ""
