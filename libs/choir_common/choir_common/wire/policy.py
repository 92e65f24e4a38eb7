"""The section `policy` of config.json: rules on tool calls, and the decision on one call."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from choir_common.wire.grants import GrantView
from choir_common.wire.model import AwareTime, JsonObject, Name, WireModel
from choir_common.wire.money import UsdAmount, UsdLimit

MAX_TOOL_NAME = 100
Action = Literal["allow", "ask", "deny"]
LaneKind = Literal["edge", "core"]
Role = Literal["admin", "user"]
Pattern = Annotated[str, StringConstraints(min_length=1, max_length=300)]
"""A text in which `*` stands for any characters, `?` for one and `[ab]` for one of several."""


DEFAULT_KNOWN_HOSTS: tuple[Pattern, ...] = (
    *("pypi.org", "files.pythonhosted.org", "conda.anaconda.org", "repo.anaconda.com"),
    *("registry.npmjs.org", "registry.yarnpkg.com"),
    *("crates.io", "index.crates.io", "static.crates.io", "static.rust-lang.org"),
    *("proxy.golang.org", "sum.golang.org", "rubygems.org", "index.rubygems.org"),
    *("repo.maven.apache.org", "repo1.maven.org", "repo.packagist.org", "api.nuget.org"),
    *("deb.debian.org", "security.debian.org", "archive.ubuntu.com", "security.ubuntu.com"),
    *("ports.ubuntu.com", "dl-cdn.alpinelinux.org"),
)
"""Package registries."""


class PolicyRule(WireModel):
    """A rule on tool calls. The first rule that applies decides; a condition that is absent always holds."""

    action: Action
    """`ask`: a person decides on each call."""
    tools: tuple[Pattern, ...] = ("*",)
    """Patterns of tools' names, for example `choir.email.*`."""
    agents: tuple[Name, ...] = ()
    """Agents to which the rule applies."""
    lanes: tuple[LaneKind, ...] = ()
    """`edge`: calls while it talks; `core`: calls of core jobs."""
    roles: tuple[Role, ...] = ()
    """`admin`: the agent talks in a conversation with `admin`; `user`: in another one."""
    hosts: tuple[Pattern, ...] = ()
    """Patterns of hosts that the call names, for example `*.example.com`. For `allow` all of its hosts must
    match, and the call must not be able to contact others; for `ask` and `deny` one is enough."""
    recipients: tuple[Pattern, ...] = ()
    """Patterns of mail addresses, or of conversations as `dm:NAME`, to which it sends; as for `hosts`."""
    paths: tuple[Pattern, ...] = ()
    """Patterns of the path in the workspace that the call names."""
    arguments: dict[str, Pattern] = Field(default_factory=dict)
    """Patterns of arguments by name; other values than text are compared as JSON."""
    spent_above: UsdLimit | None = None
    """The agent has spent more US dollars than this today. If the sum is unknown, `ask` and `deny` apply."""
    until: AwareTime | None = None
    """The rule ends at this time."""
    why: str = Field(default="", max_length=300)
    """The reason, shown to people and to the model."""


class AgentPolicy(WireModel):
    """The policy as a running agent has it."""

    agent_id: str = ""
    role: Role = "user"
    """Of the conversation in which the agent talks."""
    rules: tuple[PolicyRule, ...] = ()
    known_hosts: tuple[Pattern, ...] = DEFAULT_KNOWN_HOSTS
    """Patterns of hosts that need no question: `known_hosts`, and the servers in config.json."""


class AllowedHost(WireModel):
    """A host that an agent reaches without a question."""

    agent_id: str
    host: str
    named_by: str
    """The conversation whose user named it (`dm NAME`), or the grant."""
    at: AwareTime
    """When it was named or allowed last."""


class PolicyDecision(WireModel):
    """What the policy says about a call."""

    action: Action
    source: Literal["config", "tool", "default"]
    """`config`: a rule of config.json; `default`: a rule of Choir, or none; `tool`: its manifest has
    `needs_approval`."""
    rule: int | None = None
    """The rule's place in `policy`, counted from 0."""
    why: str = ""
    names_destinations: bool = False
    """Whether the rule has conditions on hosts or recipients."""


class ExplainCall(WireModel):
    """A call that an operator wants explained."""

    tool: Annotated[str, StringConstraints(min_length=1, max_length=MAX_TOOL_NAME)]
    arguments: JsonObject = Field(default_factory=dict)
    lane: LaneKind = "edge"


class RuleCheck(WireModel):
    """Whether one rule applies to a call."""

    rule: int
    action: Action
    unmet: tuple[str, ...] = ()
    """The conditions that do not hold; empty: the rule applies."""


class ExplainedCall(WireModel):
    """The decision on a call, and how it came about."""

    decision: PolicyDecision
    hosts: tuple[str, ...] = ()
    recipients: tuple[str, ...] = ()
    may_contact_others: bool = False
    """Whether the call can contact hosts that its arguments do not name."""
    spent_usd: UsdAmount | None = None
    """What the agent has spent today; None if no rule depends on it."""
    rules: tuple[RuleCheck, ...] = ()
    """All rules up to the one that applies."""
    new_hosts: tuple[str, ...] = ()
    """Named hosts that nobody has named or agreed to yet."""
    grants: tuple[GrantView, ...] = ()
    """Grants that cover the call; those of a job or session cover it only there."""
