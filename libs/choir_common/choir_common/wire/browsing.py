"""Requests to the browser service and its answers (spec 18.2)."""

from typing import Annotated, Literal

from pydantic import Field

from choir_common.wire.model import AgentName, Wire

Url = Annotated[str, Field(min_length=1, max_length=4_000)]
Ref = Annotated[int, Field(ge=1, le=1_000_000)]
"""The number of a link, button or field, as the page's text shows it."""
TabNumber = Annotated[int, Field(ge=1, le=1_000_000)]


class ContextRequest(Wire):
    """Destroy the agent's browser context, if there is one."""

    agent_id: AgentName


class OpenPage(Wire):
    """Load an address in the current tab; the first tab is made for it."""

    action: Literal["open"] = "open"
    url: Url


class ReadPage(Wire):
    """Read the current tab again, from a character of its text on."""

    action: Literal["read"] = "read"
    start: int = Field(default=0, ge=0, le=10_000_000)
    whole: bool = False
    """Navigation, headers and footers as well, which are left out of a long page."""


class Click(Wire):
    """Press a link, a button or anything else that has a number."""

    action: Literal["click"] = "click"
    ref: Ref


class TypeText(Wire):
    """Put a text into a field, in place of what it holds."""

    action: Literal["type"] = "type"
    ref: Ref
    text: str = Field(max_length=20_000)
    submit: bool = False
    """Press Enter after it."""


class SelectOption(Wire):
    """Choose options of a list by what they say."""

    action: Literal["select"] = "select"
    ref: Ref
    options: tuple[Annotated[str, Field(max_length=1_000)], ...] = Field(max_length=100)


class Scroll(Wire):
    """Move what is seen of the page."""

    action: Literal["scroll"] = "scroll"
    to: Literal["down", "up", "top", "bottom"] = "down"


class Back(Wire):
    """Go to the page before."""

    action: Literal["back"] = "back"


class Screenshot(Wire):
    """Take a picture of what is seen, of the whole page, or of one numbered thing."""

    action: Literal["screenshot"] = "screenshot"
    full: bool = False
    ref: Ref | None = None


class Download(Wire):
    """Fetch a file: by its address, or by the link or button that gives it."""

    action: Literal["download"] = "download"
    url: Url | None = None
    ref: Ref | None = None


class Tabs(Wire):
    """See, add, close or change tabs."""

    action: Literal["tabs"] = "tabs"
    do: Literal["list", "new", "close", "switch"] = "list"
    tab: TabNumber | None = None
    """Which one to close or to switch to; the current one is closed without it."""


Action = Annotated[
    OpenPage
    | ReadPage
    | Click
    | TypeText
    | SelectOption
    | Scroll
    | Back
    | Screenshot
    | Download
    | Tabs,
    Field(discriminator="action"),
]


class BrowseRequest(Wire):
    """One action in the agent's own context; each lane has a current tab of its own."""

    agent_id: AgentName
    life: str = Field(default="", max_length=200)
    """Which start of the agent's process asks: a context is one life's, and ends with it."""
    call_id: str
    action: Action
    lane: str = Field(default="edge", max_length=200)
    timeout_ms: int = Field(default=30_000, ge=100, le=120_000)


class TabView(Wire):
    """A tab of the agent's context."""

    tab: int
    url: str
    title: str
    current: bool


class Blob(Wire):
    """Bytes that wait at the browser's HTTP door, to be fetched once and soon."""

    blob_id: str = Field(pattern=r"^[A-Za-z0-9_-]{20,100}$")
    name: str
    """A file name that a stranger may have chosen; harmless characters only."""
    mime: str
    size: int


class SavedFile(Wire):
    """A file that control put into the agent's workspace."""

    path: str
    mime: str
    size: int


class Sight(Wire):
    """What is to be seen after an action: untrusted words of a stranger, capped."""

    url: str
    """Where the tab is, after redirects; empty when it shows nothing."""
    origin: str = ""
    """Whose words they are: scheme, host and port of `url`."""
    untrusted: Literal[True] = True
    status: int
    """Of the answer the page came in; 0 when it came in none."""
    title: str
    text: str
    """Markdown; what can be pressed or filled in stands as `[number: …]`."""
    truncated: bool
    """Whether the page's text goes on at `next_start`."""
    next_start: int | None = None
    notes: tuple[str, ...] = ()
    """What the browser itself has to say: a dialog that was closed, a tab that opened, a crash."""
    tab: int | None = None
    tabs: tuple[TabView, ...] = ()
    """Only for an action on tabs."""


class BrowsedPage(Sight):
    """The browser's answer to control."""

    blob: Blob | None = None
    """Only for a screenshot or a download."""


class BrowseOutcome(Sight):
    """Control's answer to the agent."""

    file: SavedFile | None = None
