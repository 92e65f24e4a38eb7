"""Selection of a session's resources from the start request and the agent's defaults. Pure.

In a request None means the default; an empty string means no resource, where the resource is
optional.
"""

from collections.abc import Collection

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.wire.config import Config
from choir_common.wire.operator import StartAgent
from choir_common.wire.rpc import ResourceBindings
from choir_control.configuration.current import ConfigSnapshot

MAX_NAME_IN_ERROR = 80
OVERRIDABLE_FIELDS = ("llm", "voice_profile")
"""Bindings that can be changed while a session is unfinished."""


def choose_bindings(
    snapshot: ConfigSnapshot, agent_id: str, request: StartAgent
) -> ResourceBindings:
    """Return the bindings of a new session.

    Raises NotFound for an unknown agent and InvalidRequest for an unknown resource name.
    """
    defaults = snapshot.agent(agent_id).defaults
    bindings = ResourceBindings(
        workspace=request.workspace or defaults.workspace,
        llm=request.llm or defaults.llm,
        dm=request.dm or defaults.dm,
        voice_profile=_value_or_default(request.voice_profile, defaults.voice_profile),
        git_identity=_value_or_default(request.git_identity, defaults.git_identity),
        notion=_value_or_default(request.notion, defaults.notion),
        email=_value_or_default(request.email, defaults.email),
    )
    check_bindings(snapshot.config, bindings)
    return bindings


def check_bindings(config: Config, bindings: ResourceBindings) -> None:
    """Raise InvalidRequest if a bound name is not in the configuration."""
    references: list[tuple[str, str | None, Collection[str]]] = [
        ("workspace", bindings.workspace, config.workspaces),
        ("llm", bindings.llm, config.models),
        ("dm", bindings.dm, config.dms),
        ("voice profile", bindings.voice_profile, config.voice_profiles),
        ("git identity", bindings.git_identity, config.git_identities),
        ("notion integration", bindings.notion, config.notion_integrations),
        ("email account", bindings.email, config.email_accounts),
    ]
    for kind, name, configured_names in references:
        if name is not None:
            require_known_name(kind, name, configured_names)


def is_resumable(config: Config, bindings: ResourceBindings) -> bool:
    """Return whether the bindings that a session cannot run without are still configured."""
    needs = ((bindings.workspace, config.workspaces), (bindings.llm, config.models))
    return bindings.dm in config.dms and all(name in names for name, names in needs)


def is_claimed_by_other_agent(config: Config, agent_id: str, bindings: ResourceBindings) -> bool:
    """Return whether the DM or workspace now belongs to another agent with autostart."""
    own = config.agents[agent_id].defaults
    others = [it for name, it in config.agents.items() if it.autostart and name != agent_id]
    return any(
        (bindings.dm != own.dm and bindings.dm in (other.defaults.dm, *other.conversations))
        or (bindings.workspace == other.defaults.workspace != own.workspace)
        for other in others
    )


def require_known_name(kind: str, name: str, configured_names: Collection[str]) -> None:
    """Raise InvalidRequest, listing the known names, if `name` is not one of them."""
    if name not in configured_names:
        names = ", ".join(sorted(configured_names)) or _("none")
        raise InvalidRequest(
            _("config.json has no {kind} {name!r}; it has: {names}.").format(
                kind=kind, name=name[:MAX_NAME_IN_ERROR], names=names
            )
        )


def find_contradictions(request: StartAgent, bindings: ResourceBindings) -> list[str]:
    """Return the bindings that contradict the request and that cannot be changed."""
    requested = request.model_dump(exclude_none=True)
    for field in OVERRIDABLE_FIELDS:
        if requested.get(field):
            del requested[field]
    current = bindings.model_dump()
    return [
        f"{field} {current[field] or 'none'}"
        for field in requested
        if requested[field] != (current[field] or "")
    ]


def _value_or_default(requested: str | None, default: str | None) -> str | None:
    return default if requested is None else requested or None
