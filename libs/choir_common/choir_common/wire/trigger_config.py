"""The sections `hooks`, `triggers` and `agents.NAME.wake_ups` of config.json: what starts an agent's work."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from choir_common.wire.model import AgentName, Name, WireModel

MAX_TEMPLATE = 4_000
MAX_SENDER = 320
"""Characters of a sender's address."""
FILE_TEMPLATE = "A file was {{ event }}: {{ path }}"
MAIL_TEMPLATE = "Mail from {{ from }}: {{ subject }}\n{{ text }}"
HEADER_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9-]{0,63}$"
INTERVAL_PATTERN = r"^[1-9][0-9]{0,3}[mhd]$"
QUIET_HOURS_PATTERN = r"^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]$"
SignatureScheme = Literal["standard-webhooks", "github", "hmac-sha256", "token"]
TriggerKind = Literal["message", "job"]
"""`message`: the agent answers the text in its conversation; `job`: a core job has the text as its task."""


class HookConfig(WireModel):
    """An incoming webhook: signed requests of a program become messages or core jobs of an agent."""

    agent: AgentName
    """A name in `agents`: the agent that gets what arrives."""
    dm: Name | None = None
    """A name in `dms`: the conversation that gets it; default: the agent's `defaults.dm`."""
    secret: Name
    """The name of the secret that signs the requests, or is their token."""
    signature: SignatureScheme = "standard-webhooks"
    """How requests prove where they come from."""
    header: str | None = Field(default=None, pattern=HEADER_PATTERN)
    """The header with the signature or the token. Default of `hmac-sha256`: `X-Signature-256`; of `token`:
    `Authorization`. The other schemes have fixed ones."""
    timestamp_header: str | None = Field(default=None, pattern=HEADER_PATTERN)
    """Only for `hmac-sha256`: the header with the seconds since 1970, signed as `timestamp.body`."""
    kind: TriggerKind = "message"
    """Whether the agent gets a message, or a core job is started."""
    template: str = Field(default="{{ . }}", min_length=1, max_length=MAX_TEMPLATE)
    """What the agent reads. `{{ a.b.0 }}` is a place for a value of the JSON body, `{{ . }}` for all."""
    per_minute: int = Field(default=60, ge=1, le=6_000)
    """Requests a minute; more get the response 429."""
    max_kb: int = Field(default=256, ge=1, le=1_024)
    """The largest body, in KiB; a larger one gets the response 413."""
    repeat_window_s: int = Field(default=300, ge=0, le=86_400)
    """Without an id, an equal body within so many seconds counts as a repetition."""


class MailTriggerConfig(WireModel):
    """Which mail of an `email` gateway starts work."""

    model_config = ConfigDict(serialize_by_alias=True)

    gateway: Name
    """A name in `gateways` of the type `email`: the mailbox. It may have no conversation in `dms`."""
    senders: tuple[Annotated[str, Field(min_length=1, max_length=MAX_SENDER)], ...] = Field(
        default=("*",), alias="from", min_length=1, max_length=100
    )
    """Patterns of senders' addresses, such as `*@shop.example`; upper and lower case are equal."""
    subject: str = Field(default="", max_length=200)
    """Text that the subject must contain; upper and lower case are equal. Empty: any subject."""
    require_authenticated: bool = True
    """Whether the mail server must have authenticated the sender, as for mail of people."""


class TriggerConfig(WireModel):
    """A watched folder or mail: what arrives becomes messages or core jobs of an agent.

    It has either `folder` or `mail`.
    """

    agent: AgentName
    """A name in `agents`: the agent that is notified."""
    dm: Name | None = None
    """A name in `dms`: the conversation that is notified; default: the agent's `defaults.dm`."""
    mail: MailTriggerConfig | None = None
    """Which mail starts work, for a trigger without `folder`."""
    folder: str = Field(default="", max_length=1_000)
    """Absolute, or starting with `~`; its subfolders are included. Choir's control service must see it."""
    patterns: tuple[str, ...] = ("*",)
    """Patterns of file names of `folder`, such as `*.pdf`; a pattern with `/` is compared with the path
    in the folder."""
    settle_s: int = Field(default=5, ge=1, le=3_600)
    """A file counts when it has not changed for so many seconds."""
    kind: TriggerKind = "message"
    """Whether the agent gets a message, or a core job is started."""
    template: str | None = Field(default=None, min_length=1, max_length=MAX_TEMPLATE)
    """What the agent reads; without it, what arrived. Places of a file: `event` (created, changed), `name`,
    `path`, `size`, `text` (the beginning of a text file). Places of a mail: `from`, `from_name`, `to`,
    `subject`, `date`, `text`, `attachments`, `authenticated`."""
    per_minute: int = Field(default=20, ge=1, le=600)
    """Files or mails a minute; others wait."""

    @property
    def type(self) -> Literal["folder", "mail"]:
        """Return what starts the work."""
        return "mail" if self.mail is not None else "folder"

    @property
    def full_template(self) -> str:
        """Return the template, or the default one of its type."""
        return self.template or (MAIL_TEMPLATE if self.mail is not None else FILE_TEMPLATE)


class WakeUpConfig(WireModel):
    """Regular moments at which an agent looks after what is open; it says something only with a reason."""

    every: str = Field(default="1h", pattern=INTERVAL_PATTERN)
    """The time between two wake-ups: minutes, hours or days, such as `30m`; at least `15m`."""
    quiet_hours: str | None = Field(default=None, pattern=QUIET_HOURS_PATTERN)
    """A time of day without wake-ups, such as `22:00-07:30`, in the user's time zone."""
    model: Name | None = None
    """A name in `models`: the model of these turns, for example a cheap one; default: the agent's."""
    max_per_day: int = Field(default=12, ge=1, le=96)
    """The most wake-ups a day."""
