"""What a runtime hands a new agent process on standard input: one JSON line, then end of file.

Standard input, because a token there is in no environment, no argument list and no file.
"""

from pydantic import Field

from choir_common.wire.model import Wire


class AgentBoot(Wire):
    """Who the agent is, where control is, and its lease token."""

    agent_id: str
    session_id: str
    epoch: int = Field(ge=1)
    lease_token: str
    endpoint: str
    """`unix:///path/choir.sock` or `http(s)://host:port`."""
    ca_pem: str = Field(default="", max_length=50_000)
    """The certificates an `https` endpoint is verified by, and no others; empty: those of the system."""
    workspace: str
    """The workspace directory as the agent sees it."""
    choir_dir: str
    """The identity directory (spec 15.1: /choir) as the agent sees it."""
    image_version: str = ""
