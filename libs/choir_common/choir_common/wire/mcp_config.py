"""The section `mcp` of config.json: servers of the Model Context Protocol. See docs/mcp.md."""

import hashlib
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints, model_validator

from choir_common.i18n import _
from choir_common.wire.model import AgentName, Name, WireModel
from choir_common.wire.policy import Pattern

SERVER_NAME_PATTERN = r"^[a-z0-9][a-z0-9-]{0,23}$"
VARIABLE_NAME_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]{0,63}$"
VARIABLE_VALUE_PATTERN = r"^[^\x00]*$"
ARGUMENT_PATTERN = r"^[^\x00]+$"

McpServerName = Annotated[str, StringConstraints(pattern=SERVER_NAME_PATTERN)]
"""Lower-case letters, digits and hyphens, without dot and underscore: `mcp_NAME_tool` then names one tool."""
EnvironmentName = Annotated[str, StringConstraints(pattern=VARIABLE_NAME_PATTERN)]
EnvironmentValue = Annotated[
    str, StringConstraints(max_length=4_000, pattern=VARIABLE_VALUE_PATTERN)
]
Argument = Annotated[str, StringConstraints(max_length=4_000, pattern=ARGUMENT_PATTERN)]

MAX_TOOL_TIMEOUT_MS = 3_600_000
RESERVED_VARIABLES = frozenset(
    (
        *("PATH", "HOME", "PWD", "TMPDIR", "CHOIR_CALL_ID", "LD_PRELOAD", "LD_LIBRARY_PATH"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    )
)
"""Variables that Choir sets for each program, or that would change which program runs."""


def oauth_token_secret(url: str) -> str:
    """Return the name of the secret that is the token of a login.

    It is made from the URL: a server that gets another URL gets no token of the old one.
    """
    return f"mcp-oauth-{hashlib.sha256(url.encode()).hexdigest()[:16]}"


class McpSamplingConfig(WireModel):
    """The use of a model by a server (sampling)."""

    model: Name
    """The model, one of those that the agent uses itself."""
    max_tokens: int = Field(default=1_000, ge=1, le=32_000)
    """The longest answer, in tokens."""
    calls_per_hour: int = Field(default=20, ge=1, le=1_000)
    """The requests that the agent answers in an hour; its budgets apply besides."""


class McpServerConfig(WireModel):
    """A server of the Model Context Protocol whose tools agents may use; a command or a URL."""

    command: tuple[Argument, ...] = ()
    """The program and its arguments. It is started for each agent, confined like the agent's tools, and
    speaks over standard input and output."""
    url: str | None = Field(default=None, pattern=r"^https?://\S+$")
    """The endpoint of a server that speaks streamable HTTP."""
    agents: tuple[AgentName, ...] = Field(min_length=1)
    """The agents that may use it; others neither start it nor see its tools."""
    environment: dict[EnvironmentName, EnvironmentValue] = Field(default_factory=dict)
    """Environment variables of the command; values that are secret belong in `secrets`."""
    secrets: dict[EnvironmentName, Name] = Field(default_factory=dict)
    """Environment variables of the command, each with the name of the secret that is its value."""
    secret: Name | None = None
    """The name of the secret that a `url` gets as `Authorization: Bearer`."""
    oauth: bool = False
    """Whether the token of a `url` is that of `choirctl mcp login NAME` (OAuth); it is renewed by itself, and
    is sent to this `url` only."""
    hosts: tuple[Pattern, ...] = ()
    """Patterns of the only hosts that the command may reach; without one it has no network."""
    workspace: bool = False
    """Whether the command may read and write the agent's workspace, like `choir.exec`. Otherwise it may read
    only the system's programs and the agent's tools, and write nothing."""
    tools: tuple[Pattern, ...] = ("*",)
    """Patterns of the tools that are offered."""
    read_only: tuple[Pattern, ...] = ()
    """Patterns of tools that change nothing and send nothing on, by your own judgement: they run beside core
    jobs, beside each other, and without the question about private data. What a server says of its tools is
    not believed."""
    timeout_ms: int = Field(default=60_000, ge=1_000, le=MAX_TOOL_TIMEOUT_MS)
    """The longest time of a call."""
    start_timeout_ms: int = Field(default=60_000, ge=1_000, le=600_000)
    """The longest time until a started server has listed its tools."""
    elicitation: bool = True
    """Whether it may ask the user during a call (elicitation): the question is a request for approval, and
    its answer goes to the server. Questions for secrets are refused in any case."""
    sampling: McpSamplingConfig | None = None
    """Whether it may use a model during a call (sampling), and how much; without it, it may not. The first
    request of a session asks you, unless a rule of `policy` on `mcp.NAME.sampling` decides."""

    @model_validator(mode="after")
    def _check(self) -> "McpServerConfig":
        if bool(self.command) == (self.url is not None):
            raise ValueError(_("set either `command` or `url`"))
        only_for_commands = (self.environment, self.secrets, self.hosts, self.workspace)
        if self.url is not None and any(only_for_commands):
            raise ValueError(
                _("`environment`, `secrets`, `hosts` and `workspace` are for a `command`")
            )
        if self.url is not None and (
            urlsplit(self.url).username or not urlsplit(self.url).hostname
        ):
            raise ValueError(_("a `url` has a host and no user name; name its token in `secret`"))
        if self.oauth and (self.url is None or self.secret is not None):
            raise ValueError(_("`oauth` is for a `url` without a `secret`"))
        if self.command and self.secret is not None:
            raise ValueError(_("`secret` is for a `url`; name a command's secrets in `secrets`"))
        if self.workspace and self.secrets:
            # Commands of the agent could change the program that gets the secret.
            raise ValueError(
                _(
                    "a command with `secrets` cannot have the workspace: install it for the whole system"
                )
            )
        names = {name.upper() for name in (*self.environment, *self.secrets)}
        if names & RESERVED_VARIABLES or set(self.environment) & set(self.secrets):
            raise ValueError(
                _("a variable is set twice, or is one that Choir sets: {names}").format(
                    names=", ".join(sorted(RESERVED_VARIABLES))
                )
            )
        return self

    def secret_names(self) -> frozenset[str]:
        """Return the names of the secrets that the server gets."""
        token = self.token_secret
        return frozenset((*self.secrets.values(), *((token,) if token else ())))

    @property
    def token_secret(self) -> str | None:
        """The name of the secret that is the token for the `url`, or None."""
        return oauth_token_secret(self.url) if self.oauth and self.url else self.secret


class McpConfig(WireModel):
    """Servers of the Model Context Protocol."""

    servers: dict[McpServerName, McpServerConfig] = Field(default_factory=dict)
    """Servers, by name. A tool of a server is called `mcp.NAME.TOOL`."""

    def servers_of(self, agent_id: str) -> dict[str, McpServerConfig]:
        """Return the servers that an agent may use."""
        return {
            name: server.model_copy(update={"agents": (agent_id,)})
            for name, server in self.servers.items()
            if agent_id in server.agents
        }
