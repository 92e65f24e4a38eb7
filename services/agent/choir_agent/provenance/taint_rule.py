"""The taint rule: a lane that holds untrusted text and private data asks before it sends data out. Pure.

Untrusted text may order the model to send the private data away; no filter recognises such orders. So a
person sees what would be sent, where to and why Choir asks. See docs/design/provenance.md.
"""

from dataclasses import dataclass
from typing import Protocol

from choir_agent.provenance.data_flow import DataFlow
from choir_agent.provenance.taint_fold import GESTURES
from choir_common.policy import Destinations
from choir_common.wire.model import JsonObject
from choir_common.wire.provenance import LaneTaint, Origin

MAX_LINK_CHOICES = 5
"""Links that a lane may follow without a question, since a person last agreed to one of its calls."""
MAX_GESTURES = 20
"""The same of actions that the script of a page can notice."""
FREE_PAGE_ACTIONS = frozenset({"read"})
"""Browser actions that no page notices."""
LINK_ACTIONS = frozenset({"click", "select"})
"""Browser actions that choose one of the things that a page offers."""
WORKSPACE = Origin(what="files of the workspace")


class LinkSource(Protocol):
    """Links that a lane has read or that the user wrote."""

    def is_from_user(self, lane: str, url: str) -> bool:
        """Return whether a message of the user contains exactly this URL."""
        ...

    def is_link(self, lane: str, url: str) -> bool:
        """Return whether a page, a mail or a list of search results contains exactly this URL."""
        ...


class NoLinks:
    """A source without links."""

    def is_from_user(self, lane: str, url: str) -> bool:
        """Return False."""
        return False

    def is_link(self, lane: str, url: str) -> bool:
        """Return False."""
        return False


@dataclass(frozen=True, slots=True)
class SendingCall:
    """A call that is about to run."""

    lane: str
    tool: str
    flow: DataFlow
    arguments: JsonObject
    destinations: Destinations
    hosts: tuple[str, ...] = ()
    """New hosts that it is to reach."""
    known_recipients: tuple[str, ...] = ()
    """Recipients to which a call needs no question by default."""


def runs_offline(
    flow: DataFlow, arguments: JsonObject, lane_taint: LaneTaint, *, hosts: tuple[str, ...] = ()
) -> bool:
    """Return whether a call runs without network.

    Its argument decides; without one, whether its lane holds text from outside. A call that is to reach
    new `hosts` has network.
    """
    if not flow.can_be_offline or hosts:
        return False
    network = arguments.get("network")
    return not network if isinstance(network, bool) else bool(lane_taint.outside)


@dataclass(frozen=True, slots=True)
class TaintRule:
    """The rule, and the links that calls may follow."""

    links: LinkSource

    def question(self, call: SendingCall, lane_taint: LaneTaint) -> str | None:
        """Return why a person must be asked about a call, or None."""
        private = lane_taint.private or self._own_private(call)
        if not lane_taint.outside or not private or not self._sends(call, lane_taint):
            return None
        return "\n".join(
            (
                "This call can send data out, and the conversation holds both text from outside and "
                "private data: the text may have asked for it. Everything that is sent is shown with "
                "the call.",
                f"Destination: {_destination(call)}",
                f"Text from outside: {_listed(lane_taint.outside)}",
                f"Private data: {_listed(private)}",
            )
        )

    def _own_private(self, call: SendingCall) -> tuple[Origin, ...]:
        # Files are named in the arguments, or read by the program itself.
        has_files = call.flow.private or bool(call.arguments.get("attachments"))
        return (WORKSPACE,) if has_files else ()

    def _sends(self, call: SendingCall, lane_taint: LaneTaint) -> bool:
        match call.flow.sends:
            case "nothing":
                return False
            case "network":
                return not runs_offline(call.flow, call.arguments, lane_taint, hosts=call.hosts)
            case "mail":
                return True
            case "conversations":
                # Other conversations of the same person are not outside.
                return bool({*call.destinations.recipients} - {*call.known_recipients})
            case "pages":
                return self._sends_to_page(call, lane_taint)

    def _sends_to_page(self, call: SendingCall, lane_taint: LaneTaint) -> bool:
        action, url = call.arguments.get("action"), call.arguments.get("url")
        has_choice = lane_taint.choices <= MAX_LINK_CHOICES
        if isinstance(url, str):
            if self.links.is_from_user(call.lane, url):
                return False
            return not (has_choice and self.links.is_link(call.lane, url))
        if action in FREE_PAGE_ACTIONS:
            return False
        if action in GESTURES:
            return lane_taint.gestures > MAX_GESTURES
        return not (has_choice and (action in LINK_ACTIONS or action == "download"))


def _destination(call: SendingCall) -> str:
    destinations = (*call.destinations.hosts, *call.destinations.recipients)
    if call.hosts and call.destinations.is_open:
        return f"{', '.join(call.hosts)}, and known hosts"
    if destinations and not call.destinations.is_open:
        return ", ".join(destinations)
    if call.flow.sends == "pages":
        return "the page that is open"
    return "any host"


def _listed(origins: tuple[Origin, ...]) -> str:
    return "; ".join(source.what for source in reversed(origins))
