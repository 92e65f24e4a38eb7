"""Requests to the browser service and its responses."""

from typing import Annotated, Literal

from pydantic import Field

from choir_common.i18n import _
from choir_common.lanes import EDGE_LANE, MAX_LANE
from choir_common.wire.model import AgentName, WireModel

Url = Annotated[str, Field(min_length=1, max_length=4_000)]
Ref = Annotated[int, Field(ge=1, le=1_000_000)]
"""The number of a link, button or field in the page's text."""
TabNumber = Annotated[int, Field(ge=1, le=1_000_000)]

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
"""Names of the program where distributions and Google install it, the first one preferred."""
NO_SANDBOX = _("without Chromium's own sandbox")
NOT_CONFINED = _("not confined as it should be, because this host lacks")
"""Part of the browser service's status; `choirctl doctor` looks for it."""


class CloseContext(WireModel):
    """Destroy the agent's browser context, if there is one."""

    agent_id: AgentName


class OpenPage(WireModel):
    """Load an address in the current tab; the first tab is created when needed."""

    action: Literal["open"] = "open"
    url: Url


class ReadPage(WireModel):
    """Read the current tab again, from the character `start` of its text."""

    action: Literal["read"] = "read"
    start: int = Field(default=0, ge=0, le=10_000_000)
    whole: bool = False
    """Include navigation, headers and footers, which are omitted from a long page."""


class Click(WireModel):
    """Press a link, button or other numbered element."""

    action: Literal["click"] = "click"
    ref: Ref


class TypeText(WireModel):
    """Replace the content of a field by a text."""

    action: Literal["type"] = "type"
    ref: Ref
    text: str = Field(max_length=20_000)
    submit: bool = False
    """Press Enter after it."""


class SelectOption(WireModel):
    """Choose options of a list by their labels."""

    action: Literal["select"] = "select"
    ref: Ref
    options: tuple[Annotated[str, Field(max_length=1_000)], ...] = Field(max_length=100)


class Scroll(WireModel):
    """Scroll the page."""

    action: Literal["scroll"] = "scroll"
    to: Literal["down", "up", "top", "bottom"] = "down"


class Back(WireModel):
    """Go to the previous page."""

    action: Literal["back"] = "back"


class Screenshot(WireModel):
    """Take a picture of the visible part, the whole page or one numbered element."""

    action: Literal["screenshot"] = "screenshot"
    full: bool = False
    ref: Ref | None = None


class Download(WireModel):
    """Download a file, by address or by the link or button that provides it."""

    action: Literal["download"] = "download"
    url: Url | None = None
    ref: Ref | None = None


class Tabs(WireModel):
    """List, open, close or switch tabs."""

    action: Literal["tabs"] = "tabs"
    do: Literal["list", "new", "close", "switch"] = "list"
    tab: TabNumber | None = None
    """The tab to close or switch to; `close` without it closes the current tab."""


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


class BrowseRequest(WireModel):
    """One action in the agent's own browser context; each lane has its own current tab."""

    agent_id: AgentName
    life: str = Field(default="", max_length=200)
    """Identifies one start of the agent's process; a browser context belongs to it and ends with it."""
    call_id: str
    action: Action
    lane: str = Field(default=EDGE_LANE, max_length=MAX_LANE)
    timeout_ms: int = Field(default=30_000, ge=100, le=120_000)


class TabView(WireModel):
    """A tab of the agent's context."""

    tab: int
    url: str
    title: str
    current: bool


class DownloadHandle(WireModel):
    """A single-use download handle for bytes at the browser's HTTP endpoint, valid for about a minute."""

    blob_id: str = Field(pattern=r"^[A-Za-z0-9_-]{20,100}$")
    name: str
    """A file name that an outsider may have chosen, reduced to safe characters."""
    mime: str
    size: int


class SavedFile(WireModel):
    """A file that control stored in the agent's workspace."""

    path: str
    mime: str
    size: int


class PageView(WireModel):
    """The page after an action: untrusted text of limited length."""

    url: str
    """Address of the tab after redirects; empty if it shows no page."""
    origin: str = ""
    """Origin of the text: scheme, host and port of `url`."""
    untrusted: Literal[True] = True
    status: int
    """HTTP status of the page; 0 if it did not come from a response."""
    title: str
    text: str
    """Markdown; elements to press or fill in appear as `[number: …]`."""
    truncated: bool
    """Whether the page's text continues at `next_start`."""
    next_start: int | None = None
    notes: tuple[str, ...] = ()
    """Messages from the browser itself: a closed dialog, a new tab, a crash."""
    tab: int | None = None
    tabs: tuple[TabView, ...] = ()
    """Only for `Tabs` actions."""


class BrowseResponse(PageView):
    """The browser's response to control."""

    blob: DownloadHandle | None = None
    """Only for screenshots and downloads."""


class BrowseToolOutput(PageView):
    """Control's response to the agent."""

    file: SavedFile | None = None
