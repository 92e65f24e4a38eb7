"""Checks of a configuration that its schema cannot express: references and related numbers.

Pure functions. Each fault is a sentence that names the path in the file and the remedy.
"""

import os
from collections.abc import Collection, Iterator
from itertools import combinations
from pathlib import Path

from choir_common.i18n import _
from choir_common.ids import RESERVED_AGENT_IDS
from choir_common.stack_secrets import RESERVED_SECRETS
from choir_common.wire.channel_config import GatewayConfig
from choir_common.wire.channel_types import (
    types_with_app_token,
    types_with_reactions,
    types_with_webhook,
)
from choir_common.wire.config import AgentDefaults, Config
from choir_common.wire.config_parts import MONEY_BUDGETS, AgentBudgets, Budgets
from choir_common.wire.config_secrets import secret_references
from choir_common.wire.trigger_config import WakeUpConfig
from choir_control.configuration.agent_questions import find_question_faults
from choir_control.configuration.groups import find_group_faults
from choir_control.configuration.mailboxes import find_mailbox_faults
from choir_control.configuration.pairing import find_pairing_faults
from choir_control.configuration.prices import unpriced_entries

# One model call with the tools and the identity of an agent needs a few thousand tokens.
MIN_SESSION_TOKENS = 1_000
# Each core job has its own model conversation, and all of them run in one process.
MAX_CORE_JOBS = 64
# Stopping an agent waits for the summary, and users wait for the stop.
MAX_SUMMARY_TIMEOUT_MS = 300_000
MIN_WAKE_UP_MINUTES = 15
HEADER_SCHEMES = ("hmac-sha256", "token")
"""Signature schemes of hooks whose header can be chosen."""


def find_faults(config: Config) -> list[str]:
    """Return every fault of a configuration, in the order of the sections in the file."""
    return [
        *_agents(config),
        *_workspaces(config),
        *_repos(config),
        *_channels(config),
        *_people(config),
        *_models(config),
        *_voices(config),
        *_transcription(config),
        *_memory(config),
        *_triggers(config),
        *_timing(config),
        *_limits(config),
        *_prices(config),
        *_policy(config),
        *_mcp_and_skills(config),
        *_harnesses(config),
        *_secrets(config),
    ]


def _agents(config: Config) -> Iterator[str]:
    for agent_id, agent in config.agents.items():
        if agent_id in RESERVED_AGENT_IDS:
            yield _("agents.{agent_id}: this name is reserved by Choir; choose another").format(
                agent_id=agent_id
            )
        yield from _defaults(config, f"agents.{agent_id}.defaults", agent.defaults)
        if agent.wake_ups is not None:
            yield from _wake_ups(config, f"agents.{agent_id}.wake_ups", agent.wake_ups)
    yield from _conversations(config)
    yield from find_question_faults(config)


def _wake_ups(config: Config, path: str, wake_ups: WakeUpConfig) -> Iterator[str]:
    if wake_ups.every.endswith("m") and int(wake_ups.every[:-1]) < MIN_WAKE_UP_MINUTES:
        yield _("{path}.every: {every} is less than {min_wake_up_minutes}m").format(
            path=path, every=wake_ups.every, min_wake_up_minutes=MIN_WAKE_UP_MINUTES
        )
    if wake_ups.model is not None and wake_ups.model not in config.models:
        yield _unknown(f"{path}.model", wake_ups.model, "models", config.models)
    if wake_ups.quiet_hours is not None:
        start, end = wake_ups.quiet_hours.split("-")
        if start == end:
            yield _("{path}.quiet_hours: {quiet_hours} is no time; remove it").format(
                path=path, quiet_hours=wake_ups.quiet_hours
            )


def _conversations(config: Config) -> Iterator[str]:
    """Reject conversations that are unknown or taken."""
    agents: dict[str, str] = {}
    for agent_id, agent in config.agents.items():
        path, faults = f"agents.{agent_id}.conversations", list[str]()
        for dm in agent.conversations:
            first = agents.setdefault(dm, agent_id)
            if dm not in config.dms:
                faults.append(_unknown(path, dm, "dms", config.dms))
            elif dm == agent.defaults.dm:
                faults.append(
                    _("{path}: {dm!r} is its defaults.dm already; remove it here").format(
                        path=path, dm=dm
                    )
                )
            elif first != agent_id or agent.conversations.count(dm) > 1:
                faults.append(
                    _("{path}: {dm!r} is in agents.{first}.conversations; name it once").format(
                        path=path, dm=dm, first=first
                    )
                )
        yield from dict.fromkeys(faults)


def _defaults(config: Config, path: str, defaults: AgentDefaults) -> Iterator[str]:
    references: list[tuple[str, str | None, str, Collection[str]]] = [
        ("workspace", defaults.workspace, "workspaces", config.workspaces),
        ("llm", defaults.llm, "models", config.models),
        ("dm", defaults.dm, "dms", config.dms),
        ("core_llm", defaults.core_llm, "models", config.models),
        ("vision_llm", defaults.vision_llm, "models", config.models),
        ("search", defaults.search, "search", config.search),
        ("voice_profile", defaults.voice_profile, "voice_profiles", config.voice_profiles),
        ("transcription", defaults.transcription, "transcription", config.transcription),
        ("git_identity", defaults.git_identity, "git_identities", config.git_identities),
        ("notion", defaults.notion, "notion_integrations", config.notion_integrations),
        ("email", defaults.email, "email_accounts", config.email_accounts),
    ]
    for field, name, section, names in references:
        if name is not None and name not in names:
            yield _unknown(f"{path}.{field}", name, section, names)


def _policy(config: Config) -> Iterator[str]:
    for place, rule in enumerate(config.policy):
        for name in rule.agents:
            if name not in config.agents:
                yield _unknown(f"policy[{place}].agents", name, "agents", config.agents)


def _mcp_and_skills(config: Config) -> Iterator[str]:
    for name, server in config.mcp.servers.items():
        for agent in server.agents:
            if agent not in config.agents:
                yield _unknown(f"mcp.servers.{name}.agents", agent, "agents", config.agents)
        if server.sampling is not None and server.sampling.model not in config.models:
            path = f"mcp.servers.{name}.sampling.model"
            yield _unknown(path, server.sampling.model, "models", config.models)
    for name, skill in config.skills.items():
        for agent in skill.agents:
            if agent not in config.agents:
                yield _unknown(f"skills.{name}.agents", agent, "agents", config.agents)


def _harnesses(config: Config) -> Iterator[str]:
    for name, harness in config.harnesses.items():
        for agent in harness.agents:
            if agent not in config.agents:
                yield _unknown(f"harnesses.{name}.agents", agent, "agents", config.agents)
        if harness.model is not None and harness.model not in config.models:
            yield _unknown(f"harnesses.{name}.model", harness.model, "models", config.models)


def _workspaces(config: Config) -> Iterator[str]:
    """Reject relative, equal and nested workspace paths.

    Two agents would write into the same files, and a reset of one workspace would empty the other.
    """
    directories = {}
    for name, workspace in config.workspaces.items():
        directory = Path(os.path.normpath(os.path.expanduser(workspace.path)))  # noqa: PTH111 - never raises
        if directory.is_absolute():
            directories[name] = directory
        else:
            yield (
                _(
                    "workspaces.{name}.path: {workspace!r} is neither absolute nor in a home directory (~); "
                    "write the whole path"
                ).format(name=name, workspace=workspace.path)
            )
    for (first, above), (second, below) in combinations(directories.items(), 2):
        if above == below:
            yield _(
                "workspaces.{second}.path: {below} is workspaces.{first} already; choose another"
            ).format(second=second, below=below, first=first)
        elif below.is_relative_to(above) or above.is_relative_to(below):
            inner, outer = (second, first) if below.is_relative_to(above) else (first, second)
            yield (
                _(
                    "workspaces.{inner}.path: {inside} lies inside workspaces.{outer} "
                    "({outside}); choose directories that do not contain each other"
                ).format(
                    inner=inner,
                    inside=directories[inner],
                    outer=outer,
                    outside=directories[outer],
                )
            )


def _repos(config: Config) -> Iterator[str]:
    agent_repos = {
        f"agents.{agent_id}.repo": agent.repo for agent_id, agent in config.agents.items()
    }
    for path, repo in {**agent_repos, "global_repo": config.global_repo}.items():
        name = repo.git_identity if repo else None
        if name is not None and name not in config.git_identities:
            yield _unknown(f"{path}.git_identity", name, "git_identities", config.git_identities)


def _channels(config: Config) -> Iterator[str]:
    for name, gateway in config.gateways.items():
        yield from _needs_of_channel(name, gateway)
        yield from _unknown_to_channel(name, gateway)
    yield from find_mailbox_faults(config)
    yield from find_pairing_faults(config)
    yield from find_group_faults(config)
    dm_names: dict[tuple[str, str], str] = {}
    for name, dm in config.dms.items():
        if dm.gateway not in config.gateways:
            yield _unknown(f"dms.{name}.gateway", dm.gateway, "gateways", config.gateways)
        if dm.user_id is None:
            continue
        first = dm_names.setdefault((dm.gateway, dm.user_id), name)
        if first != name:
            yield _(
                "dms.{name}: user {user_id} of gateway {gateway} is already dms.{first}; remove one of the "
                "two"
            ).format(name=name, user_id=dm.user_id, gateway=dm.gateway, first=first)


def _needs_of_channel(name: str, gateway: GatewayConfig) -> Iterator[str]:
    channel = gateway.channel
    if channel.needs_token and gateway.secret is None:
        yield _(
            "gateways.{name}.secret: a {type} gateway needs the name of the secret with its token"
        ).format(name=name, type=gateway.type)
    if channel.needs_address and gateway.api_url is None:
        yield _(
            "gateways.{name}.api_url: a {type} gateway needs the address that gets its messages"
        ).format(name=name, type=gateway.type)
    if channel.needs_app_token and gateway.app_secret is None:
        yield _(
            "gateways.{name}.app_secret: a {type} gateway needs the name of the secret with its app-level "
            "token"
        ).format(name=name, type=gateway.type)
    if channel.needs_whatsapp != (gateway.whatsapp is not None):
        yield _(
            "gateways.{name}.whatsapp: every gateway of type whatsapp needs it, and no other has it"
        ).format(name=name)
    if channel.needs_signal != (gateway.signal is not None):
        yield _(
            "gateways.{name}.signal: every gateway of type signal needs it, and no other has it"
        ).format(name=name)


def _unknown_to_channel(name: str, gateway: GatewayConfig) -> Iterator[str]:
    channel = gateway.channel
    for setting, is_known, types in (
        ("webhook", channel.has_webhook, types_with_webhook()),
        ("app_secret", channel.needs_app_token, types_with_app_token()),
        ("acknowledgement", channel.has_reactions, types_with_reactions()),
    ):
        if getattr(gateway, setting) is not None and not is_known:
            yield _("gateways.{name}.{setting}: only a {types} gateway has one; remove it").format(
                name=name, setting=setting, types=types
            )


def _people(config: Config) -> Iterator[str]:
    owners: dict[tuple[str, str], str] = {}
    for name, person in config.people.items():
        for place, identity in enumerate(person.identities):
            path = f"people.{name}.identities[{place}]"
            if identity.gateway not in config.gateways:
                yield _unknown(f"{path}.gateway", identity.gateway, "gateways", config.gateways)
            first = owners.setdefault((identity.gateway, identity.user), name)
            if first != name or person.identities.count(identity) > 1:
                yield _("{path}: this user is people.{first} already; name it once").format(
                    path=path, first=first
                )
    if config.people and not any(person.role == "owner" for person in config.people.values()):
        yield _("people: nobody has the role owner; give it to one person at least")


def _models(config: Config) -> Iterator[str]:
    for name, model in config.models.items():
        path = f"models.{name}.fallback"
        for other in model.fallback:
            if other not in config.models:
                yield _unknown(path, other, "models", config.models)
            elif other == name or model.fallback.count(other) > 1:
                yield _("{path}: {other!r} is tried already; name each other model once").format(
                    path=path, other=other
                )
            elif config.models[other].provider_properties.is_rehearsal:
                yield _(
                    "{path}: {other!r} is the rehearsal model, which answers no question; remove it"
                ).format(path=path, other=other)


def _voices(config: Config) -> Iterator[str]:
    for name, profile in config.voice_profiles.items():
        if profile.tts not in config.tts:
            yield _unknown(f"voice_profiles.{name}.tts", profile.tts, "tts", config.tts)


def _transcription(config: Config) -> Iterator[str]:
    own = [name for name, entry in config.transcription.items() if entry.model_dir]
    for name in own[1:]:
        yield (
            _(
                "transcription.{name}.model_dir: transcription.{own} has a model of its own already; "
                "choose one of them"
            ).format(name=name, own=own[0])
        )


def _memory(config: Config) -> Iterator[str]:
    name = config.memory.model
    if name is not None and name not in config.models:
        yield _unknown("memory.model", name, "models", config.models)


def _triggers(config: Config) -> Iterator[str]:
    """Reject unknown agents and conversations, and settings that their scheme does not have."""
    sections = (("hooks", config.hooks), ("triggers", config.triggers))
    for section, entries in sections:
        for name, entry in entries.items():
            path = f"{section}.{name}"
            if entry.agent not in config.agents:
                yield _unknown(f"{path}.agent", entry.agent, "agents", config.agents)
            if entry.dm is not None and entry.dm not in config.dms:
                yield _unknown(f"{path}.dm", entry.dm, "dms", config.dms)
    for name, hook in config.hooks.items():
        if hook.header is not None and hook.signature not in HEADER_SCHEMES:
            yield _("hooks.{name}.header: {signature} has fixed headers; remove it").format(
                name=name, signature=hook.signature
            )
        if hook.timestamp_header is not None and hook.signature != "hmac-sha256":
            yield _("hooks.{name}.timestamp_header: only hmac-sha256 has one; remove it").format(
                name=name
            )
    for name, trigger in config.triggers.items():
        if bool(trigger.folder) == (trigger.mail is not None):
            yield _(
                "triggers.{name}: it needs either `folder` or `mail`; see docs/hooks.md"
            ).format(name=name)
        if trigger.mail is not None:
            yield from _mail_trigger(config, f"triggers.{name}.mail.gateway", trigger.mail.gateway)
        elif trigger.folder and not _is_absolute(trigger.folder):
            yield (
                _(
                    "triggers.{name}.folder: {folder!r} is neither absolute nor in a home directory (~); "
                    "write the whole path"
                ).format(name=name, folder=trigger.folder)
            )


def _is_absolute(folder: str) -> bool:
    return Path(os.path.expanduser(folder)).is_absolute()  # noqa: PTH111 - never raises


def _mail_trigger(config: Config, path: str, name: str) -> Iterator[str]:
    gateway = config.gateways.get(name)
    if gateway is None:
        yield _unknown(path, name, "gateways", config.gateways)
    elif not gateway.channel.needs_mailbox:
        yield _("{path}: {name!r} is a {type} gateway; name one of the type email").format(
            path=path, name=name, type=gateway.type
        )


def _timing(config: Config) -> Iterator[str]:
    minimum_ms = 2 * config.heartbeat_interval_ms
    if config.crash_detection_threshold_ms < minimum_ms:
        yield (
            _(
                "crash_detection_threshold_ms: {crash_detection_threshold_ms} is less than twice "
                "heartbeat_interval_ms; set it to {minimum_ms} or more, or agents that are merely busy "
                "count as crashed"
            ).format(
                crash_detection_threshold_ms=config.crash_detection_threshold_ms,
                minimum_ms=minimum_ms,
            )
        )


def _limits(config: Config) -> Iterator[str]:
    yield from _budgets("budgets", config.budgets)
    for name, agent in config.agents.items():
        yield from _budgets(f"agents.{name}.budgets", agent.budgets)
    if config.summary_timeout_ms > MAX_SUMMARY_TIMEOUT_MS:
        yield (
            _(
                "summary_timeout_ms: {summary_timeout_ms} would make every stop wait for minutes; set it "
                "to {max_summary_timeout_ms} or less"
            ).format(
                summary_timeout_ms=config.summary_timeout_ms,
                max_summary_timeout_ms=MAX_SUMMARY_TIMEOUT_MS,
            )
        )


def _budgets(path: str, budgets: Budgets | AgentBudgets) -> Iterator[str]:
    tokens, jobs = budgets.total_session_tokens, budgets.max_core_jobs
    if tokens is not None and tokens < MIN_SESSION_TOKENS:
        yield (
            _(
                "{path}.total_session_tokens: {tokens} is less than one model call takes; set it to "
                "{min_session_tokens} or more"
            ).format(path=path, tokens=tokens, min_session_tokens=MIN_SESSION_TOKENS)
        )
    if jobs is not None and jobs > MAX_CORE_JOBS:
        yield (
            _(
                "{path}.max_core_jobs: {jobs} is more than one agent can run; set it to {max_core_jobs} "
                "or less"
            ).format(path=path, jobs=jobs, max_core_jobs=MAX_CORE_JOBS)
        )


def _prices(config: Config) -> Iterator[str]:
    """Reject limits in money together with models whose price is unknown: they could not be kept."""
    agents = {f"agents.{name}.budgets": agent.budgets for name, agent in config.agents.items()}
    paths = {"budgets": config.budgets, **agents}
    limits = [
        f"{path}.{name}"
        for path, budgets in paths.items()
        for name in MONEY_BUDGETS
        if getattr(budgets, name, None) is not None
    ]
    if limits:
        for entry in unpriced_entries(config):
            yield (
                _(
                    "{entry}.prices: the price of this model is unknown, so {limits} cannot be kept; set its "
                    "prices (0 for a free model)"
                ).format(entry=entry, limits=limits[0])
            )


def _secrets(config: Config) -> Iterator[str]:
    for name, paths in secret_references(config).items():
        if name in RESERVED_SECRETS:
            for path in paths:
                if path != "postgres":
                    yield (
                        _(
                            "{path}.secret: {name!r} is reserved for Choir itself; use another name"
                        ).format(path=path, name=name)
                    )


def _unknown(path: str, name: str, section: str, names: Collection[str]) -> str:
    listing = ", ".join(sorted(names)) or _("nothing")
    return _(
        "{path}: there is no {name!r} in {section} (it has {listing}); add it or choose another"
    ).format(path=path, name=name, section=section, listing=listing)
