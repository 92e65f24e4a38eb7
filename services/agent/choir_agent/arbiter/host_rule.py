"""The rule on new hosts: a person agrees before an agent reaches a host for the first time. Pure.

A host is known if it is in config.json, if the user has named it, or if it is in search results. What only
control knows (earlier messages, and grants) answers the question there. See docs/design/policy.md.
"""

from dataclasses import dataclass
from typing import Protocol

import orjson

from choir_agent.arbiter.rulings import CheckedCall
from choir_agent.provenance.taint_rule import LinkSource, NoLinks
from choir_agent.tools.manifest import ToolManifest
from choir_common.egress.addresses import can_be_public
from choir_common.hosts import can_be_asked, find_url_hosts, is_known_host
from choir_common.policy import BUILT_IN, Destinations
from choir_common.wire.connections import HostConnections
from choir_common.wire.grants import MAX_NEW_HOSTS
from choir_common.wire.model import JsonObject
from choir_common.wire.policy import AgentPolicy

MAX_LIST_CHARS = 2_000
"""Characters of the list of hosts in the user name of a call at the proxy, which is part of a URL."""


class HostSource(LinkSource, Protocol):
    """Links and hosts that are in the windows of the lanes."""

    def hosts_of_user(self) -> tuple[str, ...]:
        """Return the hosts that the user's messages name."""
        ...

    def hosts_of_search(self) -> tuple[str, ...]:
        """Return the hosts of search results."""
        ...

    def hosts_refused_before(self, lane: str, tool: str, arguments: JsonObject) -> tuple[str, ...]:
        """Return the new hosts to which an equal call tried to connect."""
        ...

    def known_recipients(self) -> tuple[str, ...]:
        """Return the mail addresses that the user's messages name, and those to which mail was sent."""
        ...


class NoHosts(NoLinks):
    """A source without hosts."""

    def hosts_of_user(self) -> tuple[str, ...]:
        """Return nothing."""
        return ()

    def hosts_of_search(self) -> tuple[str, ...]:
        """Return nothing."""
        return ()

    def hosts_refused_before(self, lane: str, tool: str, arguments: JsonObject) -> tuple[str, ...]:
        """Return nothing."""
        return ()

    def known_recipients(self) -> tuple[str, ...]:
        """Return nothing."""
        return ()


@dataclass(frozen=True, slots=True)
class NewHosts:
    """Hosts of a call that nobody has named or agreed to."""

    names: tuple[str, ...] = ()
    is_unclear: bool = False
    """Whether a URL of the call may mean another host to a browser."""

    @property
    def why(self) -> str:
        """Return why a person is asked; empty if there is nothing to ask."""
        if self.names:
            return (
                f"New to this agent: {', '.join(self.names)}. Nobody has named or allowed it yet."
            )
        return "The URL of this call does not clearly name a host." if self.is_unclear else ""


@dataclass(frozen=True, slots=True)
class HostRule:
    """The rule, and the hosts that are in the windows."""

    source: HostSource

    def known_recipients(self, tool: str) -> tuple[str, ...]:
        """Return the mail addresses to which a call of a tool needs no question by default."""
        sends_mail = tool in BUILT_IN and bool(BUILT_IN[tool].addresses)
        return self.source.known_recipients() if sends_mail else ()

    def new_hosts(
        self, policy: AgentPolicy, checked: CheckedCall, destinations: Destinations, lane: str
    ) -> NewHosts:
        """Return the new hosts of a call: those in its URLs, or those that refused an equal call."""
        tool, arguments = checked.tool.manifest.name, checked.arguments
        refused = self.source.hosts_refused_before(lane, tool, arguments)
        hosts = (*destinations.hosts, *refused)
        if not hosts and not destinations.is_unclear:
            return NewHosts()
        patterns = (
            *policy.known_hosts,
            *self.source.hosts_of_user(),
            *self.source.hosts_of_search(),
        )
        # Private addresses are the operator's decision: the proxies refuse all others.
        public = (host for host in hosts if can_be_public(host) and can_be_asked(host))
        names = dict.fromkeys(host for host in public if not is_known_host(host, patterns))
        return NewHosts(
            tuple(names)[:MAX_NEW_HOSTS],
            destinations.is_unclear and self._has_unclear_url(tool, arguments, lane),
        )

    def reachable(self, checked: CheckedCall) -> tuple[str, ...]:
        """Return the hosts that a call may reach although the proxy may not know them.

        A person agreed to them or named them, or they are search results that the arguments name.
        """
        in_arguments = {*find_url_hosts(orjson.dumps(checked.arguments).decode())}
        results = (host for host in self.source.hosts_of_search() if host in in_arguments)
        hosts = dict.fromkeys((*checked.hosts, *results, *self.source.hosts_of_user()))
        listed: list[str] = []
        for host in (*hosts,)[:MAX_NEW_HOSTS]:
            if sum(map(len, listed)) + len(host) < MAX_LIST_CHARS:
                listed.append(host)
        return tuple(listed)

    def _has_unclear_url(self, tool: str, arguments: JsonObject, lane: str) -> bool:
        names = BUILT_IN[tool].urls if tool in BUILT_IN else ()
        urls = [arguments[name] for name in names if name in arguments]
        return any(not self.source.is_from_user(lane, str(url)) for url in urls)


def uses_proxy(tool: ToolManifest, *, offline: bool) -> bool:
    """Return whether a call runs a program that may connect through the egress proxy."""
    runtime = tool.runtime
    is_program = runtime.flow.can_be_offline or bool(runtime.executable_hash)
    return is_program and runtime.network and not offline


def describe_refused(connections: tuple[HostConnections, ...]) -> JsonObject:
    """Return what the model is told about connections to new hosts; empty without one."""
    hosts = [c.host for c in connections if c.decision == "new_host" and can_be_asked(c.host)]
    if not hosts:
        return {}
    message = (
        "These hosts are new to you, so the connections were refused. If the call is needed, repeat it with "
        "exactly the same arguments: a person is then asked, and after a yes it can connect."
    )
    return {"new_hosts": {"hosts": [*hosts], "message": message}}
