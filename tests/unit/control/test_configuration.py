"""Every fault of a configuration is found at once, named with its place and what to do."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field, ValidationError

from choir_common.errors import InvalidRequest, StartupError
from choir_common.wire.config import Config, ModelConfig, WorkspaceLimits
from choir_common.wire.model import WireModel
from choir_common.wire.operator import StartAgent
from choir_common.wire.repository_files import SkillFile, ToolManifestFile
from choir_common.wire.rpc import ResourceBindings
from choir_common.wire.validation_messages import error_messages, pattern_rule
from choir_control.agents.sessions.bindings import choose_bindings
from choir_control.agents.sessions.record import exclusive_resources
from choir_control.configuration.current import ConfigSnapshot
from choir_control.configuration.diff import diff_configs
from choir_control.configuration.host_timezone import read_host_timezone
from choir_control.configuration.identity_files import write_identity_files
from choir_control.configuration.parsing import read_config
from choir_control.configuration.validation import find_faults
from choir_control.settings import ControlSecrets, ControlSettings, check_exposure

FULL_CONFIG = Path(__file__).parents[2] / "support/full_config.json"
# in a JSON Schema: the pattern of a text, and that of the keys of an object
PATTERN = re.compile(r'"pattern": "((?:[^"\\]|\\.)*)"')
PATTERN_KEY = re.compile(r'"patternProperties": \{"((?:[^"\\]|\\.)*)"')
DEFAULTS = {"workspace": "w", "llm": "default", "dm": "d"}
MODEL = {"model": "m", "endpoint": "http://m/v1", "secret": "k"}
EARS = {"model": "whisper-1", "endpoint": "http://ears/v1"}
MAILBOX = {
    "imap_host": "m",
    "smtp_host": "m",
    "authserv_id": "m",
    "address": "agent@x.y",
    "smtp_security": "tls",
}
MAIL_GATEWAY = {"type": "email", "secret": "s", "email": MAILBOX}
ANN = {"gateway": "g", "user_id": "ann@x.y"}
BASE: dict[str, Any] = {
    "agents": {"main": {"defaults": DEFAULTS}},
    "workspaces": {"w": {"path": "/tmp/w"}},
    "models": {"default": MODEL},
    "gateways": {"g": {"type": "console"}},
    "dms": {"d": {"gateway": "g", "user_id": "1"}},
}


def config(**changes: Any) -> Config:
    return Config.model_validate_json(json.dumps({**BASE, **changes}))


def test_a_sound_configuration_has_no_faults() -> None:
    assert find_faults(config()) == []


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"workspaces": {}}, "agents.main.defaults.workspace"),
        ({"workspaces": {"w": {"path": "/tmp/w"}, "v": {"path": "/tmp/x/../w/"}}}, "workspaces.v"),
        ({"workspaces": {"w": {"path": "/tmp/w"}, "v": {"path": "/tmp/w/in/it"}}}, "workspaces.v"),
        ({"workspaces": {"w": {"path": "/tmp/w"}, "v": {"path": "/tmp"}}}, "workspaces.w"),
        ({"workspaces": {"w": {"path": "here"}}}, "workspaces.w"),
        ({"workspaces": {"w": {"path": "~nobody-here/x"}}}, "workspaces.w"),
        ({"models": {}}, "agents.main.defaults.llm"),
        ({"dms": {}}, "agents.main.defaults.dm"),
        ({"gateways": {}}, "dms.d.gateway"),
        ({"gateways": {"g": {"type": "telegram"}}}, "gateways.g.secret"),
        ({"gateways": {"g": {"type": "webhook", "secret": "s"}}}, "gateways.g.api_url"),
        (
            {
                "gateways": {
                    "g": {"type": "console", "webhook": {"url": "https://x/", "secret": "h"}}
                }
            },
            "gateways.g.webhook",
        ),
        ({"gateways": {"g": {"type": "slack", "secret": "s"}}}, "gateways.g.app_secret"),
        (
            {"gateways": {"g": {"type": "console", "app_secret": "s"}}},
            "gateways.g.app_secret",
        ),
        (
            {"gateways": {"g": {"type": "console", "acknowledgement": "👀"}}},
            "gateways.g.acknowledgement",
        ),
        ({"gateways": {"g": {"type": "signal", "api_url": "http://s"}}}, "gateways.g.signal"),
        (
            {"gateways": {"g": {"type": "email", "secret": "s"}}, "dms": {"d": ANN}},
            "gateways.g.email",
        ),
        ({"gateways": {"g": {"type": "console", "email": MAILBOX}}}, "gateways.g.email"),
        (
            {
                "gateways": {"g": MAIL_GATEWAY | {"email": {**MAILBOX, "imap_security": "none"}}},
                "dms": {"d": ANN},
            },
            "gateways.g.email.imap_security",
        ),
        ({"gateways": {"g": MAIL_GATEWAY}}, "dms.d.user_id"),
        (
            {"gateways": {"g": MAIL_GATEWAY}, "dms": {"d": ANN, "e": ANN | {"user_id": "Ann@x.y"}}},
            "dms.e",
        ),
        (
            {"gateways": {"g": MAIL_GATEWAY}, "dms": {"d": ANN | {"user_id": "Agent@x.y"}}},
            "dms.d.user_id",
        ),
        (
            {"dms": {**BASE["dms"], "e": {"gateway": "g", "user_id": "1"}}},
            "dms.e",
        ),
        ({"crash_detection_threshold_ms": 9_999}, "crash_detection_threshold_ms"),
        ({"memory": {"model": "small"}}, "memory.model"),
        ({"models": {"default": {**MODEL, "fallback": ["gone"]}}}, "models.default.fallback"),
        ({"models": {"default": {**MODEL, "fallback": ["default"]}}}, "models.default.fallback"),
        (
            {
                "models": {
                    "default": {**MODEL, "fallback": ["r"]},
                    "r": {**MODEL, "provider": "rehearsal"},
                }
            },
            "models.default.fallback",
        ),
        ({"voice_profiles": {"v": {"tts": "t", "voice_id": "x"}}}, "voice_profiles.v.tts"),
        (
            {"transcription": {"a": {**EARS, "model_dir": "/a"}, "b": {**EARS, "model_dir": "/b"}}},
            "transcription.b.model_dir",
        ),
        (
            {"agents": {"main": {"defaults": {**DEFAULTS, "transcription": "ears"}}}},
            "agents.main.defaults.transcription",
        ),
        (
            {"agents": {"main": {"defaults": {**DEFAULTS, "core_llm": "deep"}}}},
            "agents.main.defaults.core_llm",
        ),
        (
            {"agents": {"main": {"defaults": {**DEFAULTS, "search": "brave"}}}},
            "agents.main.defaults.search",
        ),
        ({"agents": {"control": {"defaults": DEFAULTS}}}, "agents.control"),
        (
            {"agents": {"main": {"defaults": DEFAULTS, "conversations": ["gone"]}}},
            "agents.main.conversations: there is no 'gone' in dms",
        ),
        (
            {"agents": {"main": {"defaults": DEFAULTS, "conversations": ["d"]}}},
            "agents.main.conversations: 'd' is its defaults.dm already",
        ),
        (
            {
                "agents": {"main": {"defaults": DEFAULTS, "conversations": ["e", "e"]}},
                "dms": {**BASE["dms"], "e": {"gateway": "g", "user_id": "2"}},
            },
            "agents.main.conversations: 'e' is in agents.main.conversations",
        ),
        ({"agents": {"memory": {"defaults": DEFAULTS}}}, "agents.memory"),
        ({"budgets": {"total_session_tokens": 10}}, "budgets.total_session_tokens"),
        ({"budgets": {"max_core_jobs": 65}}, "budgets.max_core_jobs"),
        (
            {"agents": {"main": {"defaults": DEFAULTS, "budgets": {"total_session_tokens": 10}}}},
            "agents.main.budgets.total_session_tokens",
        ),
        (
            {"agents": {"main": {"defaults": DEFAULTS, "budgets": {"max_core_jobs": 65}}}},
            "agents.main.budgets.max_core_jobs",
        ),
        ({"summary_timeout_ms": 300_001}, "summary_timeout_ms"),
    ],
)
def test_a_fault_is_named_with_its_place(changes: dict[str, Any], place: str) -> None:
    found = find_faults(config(**changes))
    assert len(found) == 1 and found[0].startswith(place)


def test_a_session_gets_the_models_that_its_models_fall_back_to_and_their_secrets() -> None:
    models = {
        "default": {**MODEL, "fallback": ["spare"]},
        "deep": {**MODEL, "fallback": ["other"]},
        "spare": {**MODEL, "secret": "spare-key", "fallback": ["unused"]},
        "other": MODEL,
        "far": MODEL,
        "eye": {**MODEL, "fallback": ["far"]},
        "unused": {**MODEL, "secret": "unused-key"},
    }
    agents = {"main": {"defaults": {**DEFAULTS, "core_llm": "deep", "vision_llm": "eye"}}}
    memory = {"model": "default"}
    snapshot = ConfigSnapshot(1, config(models=models, agents=agents, memory=memory))
    assert set(snapshot.memory_orders().fallback_models) == {"spare"}
    settings = snapshot.settings_for("main", choose_bindings(snapshot, "main", StartAgent()))
    assert set(settings.fallback_models) == {"spare", "other", "far"}
    assert settings.secret_names() == {"k", "spare-key"}


def test_a_change_of_a_fallback_concerns_the_agents_that_may_use_it() -> None:
    models = {"default": {**MODEL, "fallback": ["spare"]}, "spare": MODEL, "other": MODEL}
    for name, agents in (("spare", ("main",)), ("other", ())):
        after = config(models={**models, name: {**MODEL, "timeout_ms": 9_000}})
        (change,) = diff_configs(config(models=models), after)
        assert (change.path, change.agents) == (f"models.{name}.timeout_ms", agents)


def test_a_whole_configuration_with_hyphens_in_its_names_is_read_as_it_stands() -> None:
    found = read_config(FULL_CONFIG, None)
    assert list(found.agents) == ["agent-1"]
    bound = choose_bindings(ConfigSnapshot(1, found), "agent-1", StartAgent())
    assert (bound.workspace, bound.llm, bound.dm) == ("main-ws", "sonnet", "admin-dm")
    settings = ConfigSnapshot(1, found).settings_for("agent-1", bound)
    assert settings.git_identity is not None and settings.email is not None


@pytest.mark.parametrize(
    ("change", "place", "rule"),
    [
        ({"agents": {"Agent 1": {"defaults": DEFAULTS}}}, "agents.Agent 1: ", "lower-case letters"),
        ({"workspaces": {"a b": {"path": "/w"}}}, "workspaces.a b: ", "a name starts with"),
        (
            {"embedding": {"model": "m", "dimensions": 3, "endpoint": "ftp://x"}},
            "embedding.endpoint: ",
            "http:// or https://",
        ),
    ],
)
def test_a_value_of_a_wrong_form_is_told_in_words_and_never_as_a_pattern(
    tmp_path: Path, change: dict[str, Any], place: str, rule: str
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**BASE, **change}))
    with pytest.raises(InvalidRequest) as caught:
        read_config(path, None)
    assert place in caught.value.message and rule in caught.value.message
    assert "^" not in caught.value.message and "[key]" not in caught.value.message


def test_every_pattern_of_a_file_that_people_write_has_words() -> None:
    for shape in (Config, ToolManifestFile, SkillFile):
        text = json.dumps(shape.model_json_schema())
        patterns = {json.loads(f'"{found}"') for found in PATTERN.findall(text)}
        keys = {json.loads(f'"{found}"') for found in PATTERN_KEY.findall(text)}
        assert patterns | keys and not [one for one in patterns | keys if pattern_rule(one) is None]


def test_a_pattern_without_words_of_its_own_is_not_shown_either() -> None:
    class Keyed(WireModel):
        key: str = Field(pattern=r"^[0-9a-f]{8}$")

    with pytest.raises(ValidationError) as caught:
        Keyed(key="no key")
    [fault] = error_messages(caught.value, "the file")
    assert fault.startswith("key: ") and "^" not in fault and "no key" not in fault


def test_several_faults_are_a_list_and_one_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**BASE, "event_window": "x", "heartbeat_interval_ms": "y"}))
    with pytest.raises(InvalidRequest) as several:
        read_config(path, None)
    head, *listed, tail = several.value.message.splitlines()
    assert head == f"{path} is not valid:" and "nothing was changed" in tail
    assert [line[:23] for line in listed] == ["- line 1, heartbeat_int", "- line 1, event_window:"]
    path.write_text(json.dumps({**BASE, "event_window": "x"}))
    with pytest.raises(InvalidRequest) as one:
        read_config(path, None)
    assert "\n" not in one.value.message


def test_all_faults_are_told_in_one_error_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**BASE, "workspaces": {}, "gateways": {}}))
    with pytest.raises(InvalidRequest) as caught:
        read_config(path, None)
    assert str(path) in caught.value.message
    assert "defaults.workspace" in caught.value.message and "dms.d" in caught.value.message


def test_the_deployments_model_is_used_only_where_the_file_has_none(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    detected = ModelConfig(model="detected", endpoint="http://d/v1")
    path.write_text(json.dumps({**BASE, "models": {}}))
    assert read_config(path, detected).models["default"].model == "detected"
    path.write_text(json.dumps(BASE))
    assert read_config(path, detected).models["default"].model == "m"


def test_only_the_secrets_of_bound_resources_are_named() -> None:
    snapshot = ConfigSnapshot(1, config())
    bound = ResourceBindings(workspace="w", llm="default", dm="d")
    assert snapshot.secret_names("main", bound) == {"k"}
    assert snapshot.secret_names("main", bound.model_copy(update={"llm": "gone"})) == set()


FULL: dict[str, Any] = {
    "agents": {
        "main": {
            "defaults": {
                **DEFAULTS,
                "core_llm": "deep",
                "voice_profile": "v",
                "git_identity": "dev",
                "notion": "wiki",
                "email": "post",
            }
        },
        "plain": {
            "defaults": {**DEFAULTS, "search": "second", "transcription": "second"},
            "voice_replies": False,
        },
    },
    "models": {
        **BASE["models"],
        "deep": {"model": "d", "endpoint": "http://d/v1", "secret": "deep-key"},
    },
    "tts": {"t": {"model_id": "m", "endpoint": "http://t", "secret": "tts-key"}},
    "voice_profiles": {"v": {"tts": "t", "voice_id": "x"}},
    "git_identities": {"dev": {"name": "Dev", "email": "d@e", "secret": "git-token"}},
    "notion_integrations": {"wiki": {"secret": "notion-key"}},
    "email_accounts": {
        "post": {
            "smtp_host": "s",
            "smtp_port": 587,
            "imap_host": "i",
            "imap_port": 993,
            "sharing": "shared",
            "secret": "mail-login",
        }
    },
    "search": {"second": {"secret": "search-2"}, "first": {"secret": "search-1"}},
    "transcription": {"second": EARS, "first": {**EARS, "secret": "ears-1"}},
    "summary_timeout_ms": 4_000,
    "compaction_threshold": 0.5,
}
BOUND = ResourceBindings(workspace="w", llm="default", dm="d")


def test_an_agent_is_given_every_resource_its_defaults_name() -> None:
    snapshot = ConfigSnapshot(1, config(**FULL))
    settings = snapshot.settings_for("main", choose_bindings(snapshot, "main", StartAgent()))
    assert settings.core_model_name == "deep" and settings.core_model is not None
    assert settings.voice is not None and settings.voice.tts.secret == "tts-key"
    assert settings.git_identity is not None and settings.git_identity.name == "Dev"
    assert settings.notion is not None and settings.email is not None
    assert settings.search is not None and settings.search.secret == "search-1"
    assert settings.transcription is not None and settings.transcription.name == "first"
    assert (settings.summary_timeout_ms, settings.compaction_threshold) == (4_000, 0.5)
    plain = snapshot.settings_for("plain", BOUND)
    assert plain.transcription is not None and plain.transcription.name == "second"
    assert (settings.voice_replies, plain.voice_replies) == (True, False)
    assert settings.secret_names() == {
        "k",
        "deep-key",
        "tts-key",
        "git-token",
        "notion-key",
        "mail-login",
        "search-1",
        "ears-1",
    }


def test_an_agents_own_budgets_stand_in_the_place_of_those_of_all() -> None:
    own = {"defaults": DEFAULTS, "budgets": {"max_tool_calls_per_session": 7}}
    agents = {"main": own, "plain": {"defaults": DEFAULTS}}
    snapshot = ConfigSnapshot(1, config(agents=agents, budgets={"max_core_jobs": 2}))
    main, plain = (snapshot.settings_for(name, BOUND).budgets for name in agents)
    assert (main.max_tool_calls_per_session, main.max_core_jobs) == (7, 2)
    assert (plain.max_tool_calls_per_session, plain.max_core_jobs) == (20_000, 2)


def test_an_agent_with_a_conversation_of_no_admin_works_in_the_role_of_a_user() -> None:
    dms = {"d": {**BASE["dms"]["d"], "admin": True}, "e": {**BASE["dms"]["d"], "user_id": "e"}}
    agents = {
        "main": {"defaults": DEFAULTS, "conversations": ["e"]},
        "plain": {"defaults": DEFAULTS},
    }
    snapshot = ConfigSnapshot(1, config(agents=agents, dms=dms))
    assert snapshot.settings_for("main", BOUND).policy.role == "user"
    assert snapshot.settings_for("plain", BOUND).policy.role == "admin"
    assert snapshot.default_agent_for("e") == "main"


def test_a_time_zone_is_the_users_the_agents_or_that_of_the_host(tmp_path: Path) -> None:
    agents = {
        "main": {"defaults": DEFAULTS, "timezone": "Asia/Tokyo"},
        "plain": {"defaults": DEFAULTS},
    }
    snapshot = ConfigSnapshot(1, config(agents=agents))
    assert snapshot.settings_for("main", BOUND).timezone == "Asia/Tokyo"
    assert snapshot.settings_for("plain", BOUND).timezone == read_host_timezone()
    of_user = {"dms": {BOUND.dm: {**BASE["dms"][BOUND.dm], "timezone": "America/Lima"}}}
    snapshot = ConfigSnapshot(1, config(agents=agents, **of_user))
    assert snapshot.settings_for("main", BOUND).timezone == "America/Lima"
    with pytest.raises(ValidationError, match="unknown time zone 'Tokio'"):
        config(agents={"main": {"defaults": DEFAULTS, "timezone": "Tokio"}})


@pytest.mark.parametrize(
    ("target", "zone"),
    [
        ("/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin"),
        ("../usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"),
        ("/usr/share/zoneinfo/Etc/UTC", "UTC"),
        ("/usr/share/zoneinfo/No/Such", "UTC"),
        ("/somewhere/else", "UTC"),
        (None, "UTC"),
    ],
)
def test_the_hosts_zone_is_what_localtime_points_to(
    tmp_path: Path, target: str | None, zone: str
) -> None:
    localtime = tmp_path / "localtime"
    if target is not None:
        localtime.symlink_to(target)
    assert read_host_timezone(localtime) == zone


def test_an_agent_is_told_whether_it_has_a_repository_for_its_proposals() -> None:
    agents = {
        "main": {"defaults": DEFAULTS, "repo": {"url": "https://git.example/main"}},
        "plain": {"defaults": DEFAULTS},
    }
    snapshot = ConfigSnapshot(1, config(agents=agents))
    assert snapshot.settings_for("main", BOUND).has_repository
    assert not snapshot.settings_for("plain", BOUND).has_repository


def test_an_agent_is_told_the_request_template_of_its_models_and_the_feature_flags() -> None:
    models = {
        "default": {**BASE["models"]["default"], "request": {"top_p": 0.5}},
        "deep": {**FULL["models"]["deep"], "request": {"extra_body": {"seed": 7}}},
    }
    agents = {"main": {"defaults": {**DEFAULTS, "core_llm": "deep"}}}
    snapshot = ConfigSnapshot(1, config(agents=agents, models=models, features={"browsing": False}))
    settings = snapshot.settings_for("main", BOUND)
    assert settings.model.request.body_fields() == {"top_p": 0.5}
    assert settings.core_model is not None
    assert settings.core_model.request.body_fields() == {"seed": 7}
    assert not settings.features.browsing and settings.features.proposals


def test_an_agent_is_given_no_resource_of_another() -> None:
    snapshot = ConfigSnapshot(1, config(**FULL))
    settings = snapshot.settings_for("plain", BOUND)
    assert settings.core_model is None and settings.git_identity is None and settings.email is None
    assert snapshot.secret_names("plain", BOUND) == {"k", "search-2"}
    assert snapshot.secret_names("gone", BOUND) == {"k"}


def test_bindings_name_what_the_defaults_add() -> None:
    snapshot = ConfigSnapshot(1, config(**FULL))
    bound = snapshot.complete_bindings("main", choose_bindings(snapshot, "main", StartAgent()))
    assert bound == ResourceBindings(
        workspace="w",
        llm="default",
        dm="d",
        core_llm="deep",
        search="first",
        transcription="first",
        voice_profile="v",
        git_identity="dev",
        notion="wiki",
        email="post",
    )


def test_a_start_names_other_resources_or_none() -> None:
    snapshot = ConfigSnapshot(1, config(**FULL))
    bound = choose_bindings(snapshot, "main", StartAgent(llm="deep", notion="", email=""))
    assert (bound.llm, bound.notion, bound.email, bound.git_identity) == ("deep", None, None, "dev")
    assert "notion:wiki" not in exclusive_resources("main", bound, snapshot.config)
    for wrong in (StartAgent(git_identity="x"), StartAgent(dm="x"), StartAgent(voice_profile="x")):
        with pytest.raises(InvalidRequest, match="it has"):
            choose_bindings(snapshot, "main", wrong)


def test_exclusive_resources_are_leased_and_shared_ones_are_not() -> None:
    snapshot = ConfigSnapshot(1, config(**FULL))
    bound = choose_bindings(snapshot, "main", StartAgent())
    exclusive = ["workspace:w", "dm:d", "git_identity:dev", "notion:wiki", "browser_context:main"]
    assert exclusive_resources("main", bound, snapshot.config) == exclusive
    account = {**FULL["email_accounts"]["post"], "sharing": "exclusive"}
    alone = config(**{**FULL, "email_accounts": {"post": account}})
    assert "email:post" in exclusive_resources("main", bound, alone)


def test_a_resource_that_left_the_configuration_is_gone_for_the_session_that_had_it() -> None:
    snapshot = ConfigSnapshot(1, config(**FULL))
    bound = choose_bindings(snapshot, "main", StartAgent())
    settings = ConfigSnapshot(2, config()).settings_for("main", bound)
    assert settings.git_identity is None and settings.voice is None and settings.email is None


def test_identity_is_merged_from_repositories_and_defaults(tmp_path: Path) -> None:
    shared = tmp_path / "repos/global/identity"
    personal = tmp_path / "repos/agents/main/identity"
    shared.mkdir(parents=True)
    personal.mkdir(parents=True)
    (shared / "USER.md").write_text("global user")
    (shared / "SOUL.md").write_text("global soul")
    (personal / "SOUL.md").write_text("own soul")
    (personal / "USER.md").write_text("never read")
    (personal / "SOUL-CORE.md").symlink_to("/etc/passwd")
    target = write_identity_files(tmp_path, "main", "v1")
    assert (target / "USER.md").read_text() == "global user"
    assert (target / "SOUL.md").read_text() == "own soul"
    assert "How you work" in (target / "SOUL-CORE.md").read_text()
    assert json.loads((target / "version.json").read_text())["agent_id"] == "main"
    (shared / "USER.md").write_text("changed")
    assert (write_identity_files(tmp_path, "main", "v1") / "USER.md").read_text() == "changed"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_an_open_host_needs_an_operator_token(host: str) -> None:
    settings = ControlSettings(http_host=host)
    with pytest.raises(StartupError, match="operator token"):
        check_exposure(settings, ControlSecrets())
    check_exposure(settings, ControlSecrets(operator_token="x" * 20))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_a_loopback_host_needs_none(host: str) -> None:
    check_exposure(ControlSettings(http_host=host), ControlSecrets())


def test_secrets_do_not_show_in_their_representation() -> None:
    secrets = ControlSecrets(postgres_password="hunter22", secrets={"k": "sk-value-1"})
    assert "hunter22" not in repr(secrets) and "sk-value-1" not in repr(secrets)


def test_an_agent_gets_the_limits_of_its_workspace() -> None:
    workspace = {"path": "/w", "limits": {"mb": 7, "files": None}}
    snapshot = ConfigSnapshot(1, config(workspaces={"w": workspace}))
    assert snapshot.settings_for("main", BOUND).workspace_limits == WorkspaceLimits(
        mb=7, files=None
    )
