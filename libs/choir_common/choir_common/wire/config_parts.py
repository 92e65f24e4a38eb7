"""Parts of `config`: time zones, prompts, feature flags, budgets.

Budgets are hard limits for sessions, turns and core jobs. Control computes an agent's limits and the agent
enforces them.
"""

from decimal import Decimal
from typing import Annotated, Literal, get_args
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, model_validator

from choir_common.i18n import _
from choir_common.wire.model import WireModel
from choir_common.wire.money import MoneyBudget, UsdLimit


def _check_time_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        # ZoneInfoNotFoundError is a KeyError; a name that is a directory of zones raises an OSError.
        raise ValueError(
            _("unknown time zone {name!r}; use an IANA name, such as Europe/Berlin").format(
                name=name[:64]
            )
        ) from error
    return name


TimeZone = Annotated[str, AfterValidator(_check_time_zone)]
"""An IANA time zone name."""

MAX_PROMPT_CHARS = 8_000
"""Length of a prompt of one's own; the model must also read what it is about."""


def check_prompt(text: str) -> str:
    """Return a prompt's text; raises ValueError for an empty one, one that is too long, or NUL."""
    if not text.strip() or "\x00" in text:
        raise ValueError(_("a prompt is text that is not blank, without the character NUL"))
    if len(text) > MAX_PROMPT_CHARS:
        raise ValueError(
            _("a prompt has at most {most:,} characters, not {count:,}").format(
                most=MAX_PROMPT_CHARS, count=len(text)
            )
        )
    return text


def _check_repository_path(path: str) -> str:
    parts = path.split("/")
    if not path or len(path) > 400 or any(part in ("", ".", "..") for part in parts):
        raise ValueError(_("name a file by its path in the repository, such as identity/facts.md"))
    if any(ord(character) < 32 or character in "\\:\x7f" for character in path):
        raise ValueError(_("a path contains no control character, colon or backslash"))
    return path


MailSecurity = Literal["tls", "starttls", "none"]
"""The encryption of the connection to a mail server: from the start, after `STARTTLS`, or none."""

MONEY_BUDGETS: tuple[MoneyBudget, ...] = get_args(MoneyBudget)

PromptText = Annotated[str, AfterValidator(check_prompt)]
RepositoryPath = Annotated[str, AfterValidator(_check_repository_path)]


class PromptConfig(WireModel):
    """A prompt: its text, or a file in the agent's repository; one of the two."""

    text: PromptText | None = None
    """The prompt itself, at most 8,000 characters."""
    file: RepositoryPath | None = None
    """The path of a file in the agent's own repository or folder, such as `identity/facts.md`."""

    @model_validator(mode="after")
    def _check_one(self) -> "PromptConfig":
        if (self.text is None) == (self.file is None):
            raise ValueError(_("set either `text` or `file`"))
        return self


class MemoryPromptsConfig(WireModel):
    """What memory's model should look for; the form of its answers and the safety rules are fixed."""

    extraction: PromptConfig | None = None
    """Which facts and rules to keep; default: what is still useful in a year."""
    summaries: PromptConfig | None = None
    """What summaries of days, weeks and longer periods keep; applies to those written from then on."""


class FeatureFlags(WireModel):
    """Feature flags for parts of what agents do; all are on by default."""

    message_times: bool = True
    """Prompts show when each user message was sent."""
    model_retries: bool = True
    """Retry a failed model call before the user is informed."""
    json_mode: bool = True
    """Where Choir needs JSON, request the endpoint's JSON mode first."""
    proposals: bool = True
    """Agents may propose changes to themselves, with the tools `choir.propose.*`."""
    browsing: bool = True
    """Agents may use the browser, with `choir.web.browse`."""


class Budgets(WireModel):
    """Hard limits of every agent that has none of its own."""

    max_steps_per_turn: int = Field(default=40, ge=1)
    """Model calls in one turn; a turn with forty is probably a loop."""
    max_tool_calls_per_turn: int = Field(default=100, ge=1)
    """Tool calls in one turn of the edge lane."""
    max_core_jobs: int = Field(default=8, ge=0)
    """Concurrent core jobs; each is a model conversation of its own."""
    max_core_jobs_per_message: int = Field(default=24, ge=0)
    """Core jobs between two messages of the user; it stops chains of jobs whose reports start jobs."""
    total_session_tokens: int = Field(default=20_000_000, ge=1)
    """Prompt and completion tokens of all calls in a session; the user can grant the same amount again."""
    max_tool_calls_per_session: int = Field(default=20_000, ge=1)
    """Tool calls of all lanes in a session; the user can grant the same amount again."""
    per_job_max_steps: int = Field(default=100, ge=1)
    """Model calls in one core job."""
    per_job_max_tool_calls: int = Field(default=300, ge=1)
    """Tool calls in one core job."""
    per_job_wall_time_ms: int = Field(default=3_600_000, ge=1)
    """Maximum duration of a core job, including waiting; default one hour."""
    max_injections_per_job: int = Field(default=20, ge=0)
    """Injected instructions that one core job accepts."""
    skill_step_retries: int = Field(default=2, ge=0)
    """Forbidden tools or transitions in one state of a skill before its error transition."""
    usd_per_call: UsdLimit | None = None
    """US dollars for one model call, estimated before it is made; null: no limit, here and below."""
    usd_per_job: UsdLimit | None = None
    """US dollars for one core job."""
    usd_per_session: UsdLimit | None = None
    """US dollars for one session; the user can grant the same amount again, here and above."""
    usd_per_day: UsdLimit | None = None
    """US dollars for one agent and one day of its time zone; the user can grant the same amount again."""
    usd_per_month: UsdLimit | None = None
    """US dollars for one agent and one month; the user can grant the same amount again."""
    total_usd_per_day: UsdLimit | None = None
    """US dollars for all agents and memory together and one day of the host's time zone. Only a user with
    `admin` can grant more."""
    total_usd_per_month: UsdLimit | None = None
    """US dollars for all agents and memory together and one month of the host's time zone. Only a user with
    `admin` can grant more."""

    @property
    def money(self) -> dict[MoneyBudget, Decimal]:
        """Return the limits in money that are set."""
        limits = {name: getattr(self, name) for name in MONEY_BUDGETS}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def with_overrides(self, own: "AgentBudgets") -> "Budgets":
        """Return these budgets with the values that the agent sets itself."""
        return self.model_copy(update=own.model_dump(exclude_none=True))


class AgentBudgets(WireModel):
    """Hard limits of one agent; null: the value in `budgets`."""

    max_steps_per_turn: int | None = Field(default=None, ge=1)
    """Model calls in one turn of this agent."""
    max_tool_calls_per_turn: int | None = Field(default=None, ge=1)
    """Tool calls in one turn of its edge lane."""
    max_core_jobs: int | None = Field(default=None, ge=0)
    """Its concurrent core jobs."""
    max_core_jobs_per_message: int | None = Field(default=None, ge=0)
    """Its core jobs between two messages of the user."""
    total_session_tokens: int | None = Field(default=None, ge=1)
    """Prompt and completion tokens of all calls in one of its sessions."""
    max_tool_calls_per_session: int | None = Field(default=None, ge=1)
    """Tool calls of all lanes in one of its sessions."""
    per_job_max_steps: int | None = Field(default=None, ge=1)
    """Model calls in one of its core jobs."""
    per_job_max_tool_calls: int | None = Field(default=None, ge=1)
    """Tool calls in one of its core jobs."""
    per_job_wall_time_ms: int | None = Field(default=None, ge=1)
    """Maximum duration of one of its core jobs, including waiting."""
    max_injections_per_job: int | None = Field(default=None, ge=0)
    """Injected instructions that one of its core jobs accepts."""
    skill_step_retries: int | None = Field(default=None, ge=0)
    """Forbidden tools or transitions in one state of a skill before its error transition."""
    usd_per_call: UsdLimit | None = None
    """US dollars for one of its model calls."""
    usd_per_job: UsdLimit | None = None
    """US dollars for one of its core jobs."""
    usd_per_session: UsdLimit | None = None
    """US dollars for one of its sessions."""
    usd_per_day: UsdLimit | None = None
    """US dollars for one day of its time zone."""
    usd_per_month: UsdLimit | None = None
    """US dollars for one month of its time zone."""
