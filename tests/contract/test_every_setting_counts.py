"""No dead settings: each field of config.json stands here with where it is read, and is read there."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from pydantic import BaseModel

from choir_browser.settings import BrowserSettings
from choir_common.settings import ServiceSettings
from choir_common.wire.config_parts import MONEY_BUDGETS, AgentBudgets
from choir_common.wire.config_schema import config_reference
from choir_common.wire.money import (
    EmbeddingPrices,
    LongPromptPrices,
    ModelPrices,
    SpeechPrices,
    TranscriptionPrices,
)
from choir_control.settings import ControlSettings
from choir_egress.settings import EgressSettings
from choir_gateway.settings import GatewaySettings
from choir_local.settings import LocalSettings
from choir_memory.settings import MemorySettings

ROOT = Path(__file__).parents[2]
CONTROL, AGENT = "services/control/choir_control", "services/agent/choir_agent"
MODELS = "libs/choir_models/choir_models"
COMMON, LOCAL = "libs/choir_common/choir_common", "deploy/local/choir_local"
GATEWAY, MEMORY = "services/gateway/choir_gateway", "services/memory/choir_memory"

# field -> where it is read; after a space, the name under which it is read there as part of a whole
READ = {
    "$schema": "an editor",
    "agents.*.autostart": f"{CONTROL}/agents/sessions/startup.py",
    "agents.*.recall": f"{CONTROL}/log/leases/dm_memory.py",
    "agents.*.streaming": f"{CONTROL}/configuration/current.py",
    "agents.*.timezone": f"{CONTROL}/configuration/current.py",
    "agents.*.may_ask": f"{CONTROL}/configuration/agent_questions.py",
    "agents.*.asks_per_hour": f"{CONTROL}/conversations/agent_questions/service.py",
    "agents.*.conversations": f"{CONTROL}/agents/sessions/conversation_reconciler.py",
    **{
        f"mcp.servers.*.{name}": f"{AGENT}/mcp_client/servers.py"
        for name in (
            *("command", "url", "secret", "hosts", "workspace"),
            *("start_timeout_ms", "oauth"),
        )
    },
    **{
        f"harnesses.*.{name}": f"{AGENT}/harnesses/connection.py"
        for name in ("command", "protocol", "hosts", "start_timeout_ms")
    },
    "harnesses.*.agents": f"{COMMON}/wire/harness_config.py",
    "harnesses.*.description": f"{AGENT}/tools/harness_argument.py",
    "harnesses.*.model": f"{AGENT}/harnesses/spending.py",
    "skills.*.sha256": f"{CONTROL}/configuration/current.py",
    "skills.*.agents": f"{CONTROL}/configuration/current.py",
    "mcp.servers.*.agents": f"{COMMON}/wire/mcp_config.py",
    "mcp.servers.*.tools": f"{AGENT}/mcp_client/definitions.py",
    "mcp.servers.*.read_only": f"{AGENT}/mcp_client/definitions.py",
    "mcp.servers.*.timeout_ms": f"{AGENT}/mcp_client/server.py",
    "mcp.servers.*.elicitation": f"{AGENT}/mcp_client/server.py",
    **{
        f"mcp.servers.*.sampling.{name}": f"{AGENT}/mcp_client/sampling.py"
        for name in ("model", "max_tokens", "calls_per_hour")
    },
    "agents.*.memory_between_people": f"{CONTROL}/configuration/memory_readers.py",
    "agents.*.restart": f"{CONTROL}/agents/sessions/crash_handling.py",
    **{
        f"agents.*.retention.{name}": f"{MEMORY}/summaries/retention_cutoffs.py"
        for name in ("turns", "vectors", "days", "weeks", "months", "quarters", "years")
    },
    **{
        f"agents.*.memory_prompts.{name}.{part}": f"{CONTROL}/images/repositories/prompt_files.py"
        for name in ("extraction", "summaries")
        for part in ("text", "file")
    },
    "agents.*.retention.plan": f"{COMMON}/wire/memory_config.py",
    "agents.*.reminders.scopes": f"{AGENT}/lanes/reminder_lookup.py",
    "agents.*.reminders.tags": f"{AGENT}/lanes/reminder_lookup.py",
    "agents.*.retention.log": f"{CONTROL}/log/retention/job.py",
    **{
        f"hooks.*.{name}": f"{CONTROL}/conversations/triggers/hooks.py"
        for name in ("secret", "template", "per_minute", "max_kb", "repeat_window_s", "kind")
    },
    **{
        f"hooks.*.{name}": f"{CONTROL}/conversations/triggers/signatures.py"
        for name in ("signature", "header", "timestamp_header")
    },
    **{
        f"{section}.*.{name}": f"{CONTROL}/conversations/triggers/records.py"
        for section in ("hooks", "triggers")
        for name in ("agent", "dm")
    },
    **{
        f"triggers.*.{name}": f"{CONTROL}/conversations/triggers/folders.py"
        for name in ("folder", "patterns", "settle_s", "per_minute")
    },
    "triggers.*.template": f"{COMMON}/wire/trigger_config.py",
    "triggers.*.kind": f"{CONTROL}/conversations/triggers/records.py",
    "triggers.*.mail.from": f"{CONTROL}/conversations/triggers/mail_rules.py senders",
    **{
        f"triggers.*.mail.{name}": f"{CONTROL}/conversations/triggers/mail_rules.py"
        for name in ("gateway", "subject", "require_authenticated")
    },
    "agents.*.wake_ups.every": f"{CONTROL}/conversations/schedules/wake_up_planner.py",
    "agents.*.wake_ups.quiet_hours": f"{CONTROL}/conversations/schedules/wake_up_rules.py",
    "agents.*.wake_ups.max_per_day": f"{CONTROL}/conversations/schedules/wake_up_rules.py",
    "agents.*.wake_ups.model": f"{CONTROL}/configuration/current.py",
    **{f"backup.{name}": f"{LOCAL}/backup/passphrase.py" for name in ("path", "secret")},
    "backup.every": f"{COMMON}/wire/backup_config.py",
    "backup.workspaces": f"{LOCAL}/backup/scheduled.py",
    **{
        f"backup.keep.{name}": f"{LOCAL}/backup/storage.py"
        for name in ("last", "daily", "weekly", "monthly")
    },
    "policy": f"{CONTROL}/configuration/current.py",
    "known_hosts": f"{CONTROL}/configuration/servers.py",
    **{
        f"policy[].{name}": f"{COMMON}/policy.py"
        for name in (
            *("action", "tools", "agents", "lanes", "roles", "hosts", "recipients", "paths"),
            *("arguments", "until", "spent_above", "why"),
        )
    },
    "retention.messages": f"{CONTROL}/log/retention/job.py",
    "retention.operations": f"{CONTROL}/log/retention/job.py",
    "retention.approvals": f"{CONTROL}/log/retention/job.py",
    "retention.config_versions": f"{CONTROL}/log/retention/job.py",
    "retention.sessions": f"{CONTROL}/log/retention/job.py",
    "retention.ledger": f"{CONTROL}/log/retention/job.py",
    "retention.deleted_agents": f"{CONTROL}/log/retention/job.py",
    "agents.*.settle_after_ms": f"{CONTROL}/log/archiving/archiver.py",
    "agents.*.idle_end.after_ms": f"{CONTROL}/agents/sessions/idle_end.py",
    "agents.*.repo.url": f"{CONTROL}/images/repositories/source.py",
    "agents.*.repo.ref": f"{CONTROL}/images/repositories/source.py",
    "agents.*.repo.git_identity": f"{CONTROL}/images/repositories/source.py",
    "agents.*.defaults.workspace": f"{CONTROL}/agents/sessions/bindings.py",
    "agents.*.defaults.llm": f"{CONTROL}/agents/sessions/bindings.py",
    "agents.*.defaults.dm": f"{CONTROL}/agents/sessions/bindings.py",
    "agents.*.defaults.vision_llm": f"{CONTROL}/configuration/current.py",
    "agents.*.defaults.core_llm": f"{CONTROL}/configuration/current.py",
    "agents.*.defaults.search": f"{CONTROL}/configuration/current.py",
    "agents.*.defaults.voice_profile": f"{CONTROL}/agents/sessions/bindings.py",
    "agents.*.defaults.git_identity": f"{CONTROL}/agents/sessions/bindings.py",
    "agents.*.defaults.notion": f"{CONTROL}/agents/sessions/bindings.py",
    "agents.*.defaults.email": f"{CONTROL}/agents/sessions/bindings.py",
    "workspaces.*.path": f"{CONTROL}/agents/sessions/launch.py",
    "workspaces.*.limits.mb": f"{AGENT}/tools/workspace_quota.py",
    "workspaces.*.limits.files": f"{AGENT}/tools/workspace_quota.py",
    "models.*.provider": f"{CONTROL}/api/operator/agents.py",
    "models.*.api": f"{MODELS}/registry.py",
    "models.*.input": f"{MODELS}/abilities.py",
    "models.*.model": f"{MODELS}/openai/codec.py",
    "models.*.endpoint": f"{MODELS}/openai/model.py",
    "models.*.temperature": f"{MODELS}/openai/codec.py",
    "models.*.reasoning_effort": f"{MODELS}/openai/codec.py",
    "models.*.thinking_budget": f"{MODELS}/anthropic/request.py",
    "models.*.prompt_cache": f"{MODELS}/cache_points.py",
    "models.*.secret": f"{AGENT}/lanes/model_caller.py",
    "models.*.context_window": f"{AGENT}/compaction/compactor.py",
    "models.*.timeout_ms": f"{MODELS}/openai/model.py",
    "models.*.fallback": f"{AGENT}/models/lane_models.py",
    **{
        f"models.*.request.{name}": f"{COMMON}/wire/model_config.py"
        for name in ("top_p", "provider_routing", "extra_body")
    },
    "models.*.request.extra_headers": f"{MODELS}/openai/model.py",
    "features.message_times": f"{AGENT}/lanes/edge_lane.py",
    "features.model_retries": f"{AGENT}/models/retry_policy.py",
    "features.json_mode": f"{AGENT}/compaction/compaction_model.py",
    "features.proposals": f"{AGENT}/tools/availability.py",
    "features.browsing": f"{AGENT}/tools/availability.py",
    "models.*.max_completion_tokens": f"{MODELS}/completion_limits.py",
    "gateways.*.type": f"{GATEWAY}/channel_registry.py",
    "gateways.*.secret": f"{GATEWAY}/channel_registry.py",
    "gateways.*.app_secret": f"{GATEWAY}/channel_registry.py",
    "gateways.*.api_url": f"{GATEWAY}/channels/telegram/channel.py",
    "gateways.*.webhook.url": f"{GATEWAY}/channels/telegram/channel.py",
    "gateways.*.acknowledgement": f"{GATEWAY}/channels/telegram/channel.py",
    "gateways.*.webhook.secret": f"{GATEWAY}/channel_registry.py",
    **{
        f"gateways.*.email.{name}": f"{GATEWAY}/channels/email/account.py"
        for name in (
            *("smtp_host", "smtp_port", "smtp_security", "imap_host", "imap_port"),
            *("imap_security", "address"),
        )
    },
    **{
        f"gateways.*.pairing.{name}": f"{CONTROL}/conversations/pairing/service.py"
        for name in ("agent", "role")
    },
    "gateways.*.email.authserv_id": f"{GATEWAY}/channels/email/mail_policy.py",
    "gateways.*.email.sender_check": f"{GATEWAY}/channels/email/mail_policy.py",
    "gateways.*.email.folder": f"{GATEWAY}/channels/email/mailbox_watcher.py",
    "gateways.*.email.move_to": f"{GATEWAY}/channels/email/mailbox_watcher.py",
    "gateways.*.email.mails_per_hour": f"{GATEWAY}/channels/email/parts.py",
    **{
        f"gateways.*.whatsapp.{name}": f"{GATEWAY}/channel_registry.py"
        for name in ("app_secret", "verify_secret")
    },
    "gateways.*.whatsapp.phone_number_id": f"{GATEWAY}/channels/whatsapp/factory.py",
    "gateways.*.signal.number": f"{GATEWAY}/channels/signal/channel.py",
    "gateways.*.signal.expiring_messages": f"{GATEWAY}/channels/signal/channel.py",
    "dms.*.gateway": f"{CONTROL}/configuration/current.py",
    "dms.*.timezone": f"{CONTROL}/configuration/current.py",
    "dms.*.language": f"{CONTROL}/configuration/people.py",
    "dms.*.user_id": f"{GATEWAY}/channels/interface.py",
    "dms.*.admin": f"{CONTROL}/configuration/people.py",
    "dms.*.chat_id": f"{GATEWAY}/channels/interface.py",
    "dms.*.topic": f"{GATEWAY}/channels/interface.py",
    "dms.*.answers": f"{GATEWAY}/channels/telegram/group_messages.py",
    "people.*.role": f"{CONTROL}/configuration/people.py",
    "people.*.timezone": f"{CONTROL}/configuration/people.py",
    "people.*.language": f"{CONTROL}/configuration/people.py",
    "people.*.identities": f"{CONTROL}/configuration/people.py",
    "people.*.identities[].gateway": f"{CONTROL}/configuration/people.py",
    "people.*.identities[].user": f"{CONTROL}/configuration/people.py",
    "global_repo.url": f"{CONTROL}/images/repositories/source.py",
    "global_repo.ref": f"{CONTROL}/images/repositories/source.py",
    "global_repo.git_identity": f"{CONTROL}/images/repositories/source.py",
    "tts.*.provider": f"{AGENT}/tools/speech/providers.py",
    "tts.*.model_id": f"{AGENT}/tools/speech/providers.py",
    "tts.*.endpoint": f"{AGENT}/tools/speech/providers.py",
    "tts.*.secret": f"{AGENT}/tools/availability.py",
    "voice_profiles.*.tts": f"{CONTROL}/configuration/current.py",
    "voice_profiles.*.voice_id": f"{AGENT}/tools/speech/providers.py",
    "voice_profiles.*.output_format": f"{AGENT}/tools/builtin/tts_speak.py",
    **{
        f"voice_profiles.*.voice_settings.{name}": f"{AGENT}/tools/speech/providers.py voice_settings"
        for name in ("stability", "similarity_boost", "style", "use_speaker_boost", "speed")
    },
    "agents.*.voice_replies": f"{AGENT}/lanes/voice_answers.py",
    "agents.*.defaults.transcription": f"{CONTROL}/configuration/current.py",
    **{
        f"transcription.*.{name}": f"{AGENT}/tools/speech/transcription.py"
        for name in ("endpoint", "secret", "timeout_ms")
    },
    **{
        f"transcription.*.{name}": f"{COMMON}/speech/transcription.py"
        for name in ("model", "language", "max_seconds")
    },
    "transcription.*.model_dir": f"{LOCAL}/config_values.py",
    "git_identities.*.name": f"{AGENT}/credentials/config_files.py",
    "git_identities.*.email": f"{AGENT}/credentials/config_files.py",
    "git_identities.*.secret": f"{AGENT}/credentials/git_access.py",
    "git_identities.*.hosts": f"{AGENT}/credentials/credential_server.py",
    "git_identities.*.username": f"{AGENT}/credentials/credential_server.py",
    "notion_integrations.*.secret": f"{AGENT}/tools/availability.py",
    "notion_integrations.*.endpoint": f"{AGENT}/tools/notion/api.py",
    "email_accounts.*.smtp_host": f"{AGENT}/tools/mail/account.py",
    "email_accounts.*.smtp_port": f"{AGENT}/tools/mail/account.py",
    "email_accounts.*.imap_host": f"{AGENT}/tools/mail/account.py",
    "email_accounts.*.imap_port": f"{AGENT}/tools/mail/account.py",
    "email_accounts.*.sharing": f"{CONTROL}/agents/sessions/record.py",
    "email_accounts.*.secret": f"{AGENT}/tools/availability.py",
    "email_accounts.*.address": f"{AGENT}/tools/mail/account.py",
    "email_accounts.*.smtp_security": f"{AGENT}/tools/mail/account.py",
    "email_accounts.*.imap_security": f"{AGENT}/tools/mail/account.py",
    "search.*.secret": f"{AGENT}/tools/availability.py",
    "search.*.endpoint": f"{AGENT}/tools/builtin/web_search.py",
    # a word for people: every provider is spoken to alike
    "embedding.provider": "a person",
    "embedding.model": f"{MEMORY}/settings.py",
    "embedding.dimensions": f"{MEMORY}/settings.py",
    "embedding.endpoint": f"{MEMORY}/settings.py",
    "embedding.secret": f"{LOCAL}/config_values.py",
    "memory.model": f"{LOCAL}/config_values.py",
    "postgres.host": f"{COMMON}/wire/config.py",
    "postgres.port": f"{COMMON}/wire/config.py",
    "postgres.database": f"{COMMON}/wire/config.py",
    "postgres.user": f"{COMMON}/wire/config.py",
    "postgres.secret": f"{COMMON}/postgres/configured.py",
    "limits.received_mb": f"{CONTROL}/conversations/inbox/file_fetcher.py",
    "limits.sent_mb": f"{CONTROL}/workspaces/outgoing_files.py",
    "limits.received_keep_hours": f"{CONTROL}/conversations/inbox/file_fetcher.py",
    **{
        f"agents.*.budgets.{name}": f"{CONTROL}/configuration/current.py budgets"
        for name in AgentBudgets.model_fields
    },
    **{f"budgets.{name}": f"{CONTROL}/money/budgets.py money" for name in MONEY_BUDGETS},
    **{
        f"{entry}.prices.{name}": f"{CONTROL}/money/pricing.py"
        for entry, prices in (
            ("models.*", ModelPrices),
            ("embedding", EmbeddingPrices),
            ("tts.*", SpeechPrices),
            ("transcription.*", TranscriptionPrices),
        )
        for name in prices.model_fields
        if name != "long_prompt"
    },
    **{
        f"models.*.prices.long_prompt.{name}": f"{CONTROL}/money/pricing.py"
        for name in LongPromptPrices.model_fields
    },
    "budgets.max_steps_per_turn": f"{AGENT}/lanes/turn_moves.py",
    "budgets.max_tool_calls_per_turn": f"{AGENT}/lanes/turn_moves.py",
    "budgets.max_core_jobs": f"{AGENT}/budgets/limits.py",
    "budgets.max_core_jobs_per_message": f"{AGENT}/budgets/limits.py",
    "budgets.total_session_tokens": f"{AGENT}/budgets/limits.py",
    "budgets.max_tool_calls_per_session": f"{AGENT}/budgets/limits.py",
    "budgets.per_job_max_steps": f"{AGENT}/lanes/core_job_moves.py",
    "budgets.per_job_max_tool_calls": f"{AGENT}/lanes/core_job_moves.py",
    "budgets.per_job_wall_time_ms": f"{AGENT}/lanes/core_job_moves.py",
    "budgets.max_injections_per_job": f"{AGENT}/lanes/lane_status.py",
    "budgets.skill_step_retries": f"{AGENT}/lanes/skill_steps.py",
    "heartbeat_interval_ms": f"{AGENT}/control_client/dynamic_settings.py",
    "crash_detection_threshold_ms": f"{CONTROL}/agents/sessions/crash_recovery.py",
    "rate_limit_retry_ms": f"{AGENT}/models/retry_policy.py",
    "log_archive_threshold_lines": f"{COMMON}/logs/file.py",
    "log_archive_keep_days": f"{COMMON}/logs/retention.py",
    "log_archive_keep_mb": f"{COMMON}/logs/retention.py",
    "approval_timeout_ms": f"{CONTROL}/approvals/service.py",
    "event_window": f"{AGENT}/compaction/compactor.py",
    "memory.mid_term_sessions": f"{CONTROL}/log/archiving/archiver.py",
    "memory.reminder_tokens": f"{AGENT}/lanes/reminder_lookup.py",
    "memory.query_expansion": f"{CONTROL}/agents/host_tools/memory.py",
    "compaction_threshold": f"{AGENT}/compaction/compactor.py",
    "summary_timeout_ms": f"{AGENT}/compaction/session_summary.py",
}
SERVICES: dict[type[ServiceSettings], str] = {
    ControlSettings: CONTROL,
    GatewaySettings: GATEWAY,
    BrowserSettings: "services/browser/choir_browser",
    EgressSettings: "services/egress/choir_egress",
    MemorySettings: MEMORY,
    LocalSettings: LOCAL,
}


def leaves() -> Iterator[str]:
    """Yield every place of config.json that holds a value and no further places."""
    for line in config_reference().splitlines():
        cells = [cell.strip() for cell in line.split(" | ")]
        if line.startswith("| `") and "object" not in cells[1].split(" or "):
            yield cells[0].removeprefix("| ").strip("`").replace("NAME", "*")


@cache
def names_read_in(path: Path) -> frozenset[str]:
    """Return the attributes that a module reads."""
    return frozenset(
        node.attr
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    )


def test_every_field_of_config_json_stands_in_the_table_and_nothing_else() -> None:
    assert sorted(leaves()) == sorted(READ)


@pytest.mark.parametrize("field", [name for name, place in READ.items() if place.count("/")])
def test_a_field_is_read_where_the_table_says(field: str) -> None:
    place, _, whole = READ[field].partition(" ")
    name = whole or field.rpartition(".")[2]
    assert name in names_read_in(ROOT / place), f"{place} does not read .{name}"


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (settings, name)
        for settings in SERVICES
        for name in settings.model_fields
        # the embedded stack hands its environment on to the services, which read what they all share
        if settings is not LocalSettings or name not in ServiceSettings.model_fields
    ],
)
def test_a_setting_of_the_environment_is_read_by_its_service(
    settings: type[BaseModel], name: str
) -> None:
    modules = [
        *(ROOT / SERVICES[settings]).rglob("*.py"),  # type: ignore[index]
        *(ROOT / COMMON).glob("*.py"),
        *(ROOT / "libs/choirctl/choirctl").rglob("*.py"),
    ]
    assert any(name in names_read_in(module) for module in modules), f"nobody reads .{name}"


def test_every_limit_that_the_design_names_can_be_set() -> None:
    """What docs/design calls configurable."""
    named = (
        *("max_core_jobs", "total_session_tokens", "max_tool_calls_per_session"),
        *("per_job_max_steps", "per_job_max_tool_calls", "per_job_wall_time_ms"),
        *("max_injections_per_job", "skill_step_retries"),
    )
    top = (
        *("heartbeat_interval_ms", "crash_detection_threshold_ms", "rate_limit_retry_ms"),
        *("log_archive_threshold_lines", "approval_timeout_ms", "event_window"),
        *("compaction_threshold", "summary_timeout_ms"),
    )
    assert {*(f"budgets.{name}" for name in named), *top} <= set(leaves())
