"""Clients: add, list, revoke and authenticate them, with limits on what each has open.

A change is one row of the database. The configuration in memory, the agents and the gateway follow it;
`sweep` completes what a failure interrupted.
"""

import asyncio
import contextlib
import hashlib
import hmac
import secrets
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog

from choir_common.clock import Clock
from choir_common.errors import (
    Conflict,
    InvalidRequest,
    NotFound,
    RateLimited,
    Unauthorized,
    Unavailable,
)
from choir_common.i18n import _
from choir_common.wire.api_clients import AddApiClient, ApiClientView, client_dm
from choir_control.agents.sessions.config_propagation import ConfigVersionTracker
from choir_control.agents.sessions.conversation_reconciler import ConversationReconciler
from choir_control.api_clients.store import ApiClientStore
from choir_control.configuration.api_clients import ApiClient, find_console_gateway
from choir_control.configuration.current import ConfigService, ConfigSnapshot
from choir_control.request_limits import OpenRequestLimit, RateBucket

API_PATH = "/openai/v1"
MCP_PATH = "/mcp"
TOKEN_PREFIX = "choir-"  # noqa: S105 - not a token
TOKEN_BYTES = 32
MARK_USED_AFTER = timedelta(minutes=1)
SWEEP_INTERVAL_S = 60.0
MAX_CLIENTS = 100
REQUESTS_PER_MINUTE = 120
MAX_OPEN = 8
"""Requests of one client that wait for an answer; further ones are refused."""
NO_CLIENT = _(
    "This is no client's token, or it was revoked. `choirctl client add NAME` prints a new one."
)

log = structlog.get_logger("choir.clients")


@dataclass(frozen=True, slots=True)
class NewClient:
    """A client that was added, with its token, which nobody can read again."""

    view: ApiClientView
    token: str


class ApiClientService:
    """Service of the clients of the OpenAI-compatible API and the MCP server."""

    def __init__(
        self,
        store: ApiClientStore,
        *,
        configuration: ConfigService,
        versions: ConfigVersionTracker,
        conversations: ConversationReconciler,
        clock: Clock,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._versions = versions
        self._conversations = conversations
        self._clock = clock
        self._lock = asyncio.Lock()
        self._clients: dict[str, ApiClient] = {}
        self._is_announced = True
        self._buckets: dict[str, RateBucket] = {}
        self._open = OpenRequestLimit(
            MAX_OPEN, f"{MAX_OPEN} requests of this client wait for answers, the maximum."
        )

    async def load(self) -> None:
        """Put the stored clients in force, at a start: nobody else runs yet."""
        self._set(await self._store.read_all())

    async def sweep(self) -> None:
        """Tell the agents and the gateway about a change, if that failed before. Raises Unavailable."""
        async with self._lock:
            if not self._is_announced:
                await self._announce()

    async def add(self, request: AddApiClient) -> NewClient:
        """Add a client, or give one of the same person a new token.

        Raises NotFound for an unknown person or agent, InvalidRequest without a person if config.json has
        people, and Conflict for the name of another person's client, or without a gateway of type console.
        """
        async with self._lock:
            self._check(self._configuration.current, request)
            token = f"{TOKEN_PREFIX}{request.name}.{secrets.token_urlsafe(TOKEN_BYTES)}"
            client = ApiClient(
                name=request.name,
                digest=_digest(token),
                person=request.person,
                agents=tuple(sorted(set(request.agents))),
                scopes=tuple(sorted(set(request.scopes))),
                created_at=self._clock.now(),
            )
            await self._store.put(client)
            await self._put_in_force(client)
        log.info("client added", client=client.name, person=client.person)
        return NewClient(self._view(client), token)

    def list_live(self) -> list[ApiClientView]:
        """Return the clients that are not revoked, by name."""
        return [self._view(it) for _, it in sorted(self._clients.items()) if it.revoked_at is None]

    async def revoke(self, name: str) -> None:
        """Revoke a client; its open requests end. Raises NotFound."""
        async with self._lock:
            now = self._clock.now()
            client = self._clients.get(name)
            if client is None or not await self._store.revoke(name, now):
                raise NotFound(
                    _("There is no client {name!r}; `choirctl client list` shows them.").format(
                        name=name[:64]
                    )
                )
            await self._put_in_force(replace(client, revoked_at=now))
        log.info("client revoked", client=name)

    async def authenticate(self, token: str) -> ApiClient:
        """Return the client of a token and mark it used; raises Unauthorized."""
        client = self._clients.get(token.removeprefix(TOKEN_PREFIX).partition(".")[0])
        # a comparison in any case, in constant time: the answer's time reveals neither names nor digests
        digest = client.digest if client else bytes(hashlib.sha256().digest_size)
        is_right = hmac.compare_digest(_digest(token), digest)
        if client is None or not is_right or not self.is_valid(client):
            raise Unauthorized(NO_CLIENT)
        now = self._clock.now()
        if client.last_used_at is None or now - client.last_used_at > MARK_USED_AFTER:
            await self._store.mark_used(client.name, now)
            if not self.is_valid(client):  # revoked meanwhile
                raise Unauthorized(NO_CLIENT)
            self._clients[client.name] = replace(client, last_used_at=now)
        return client

    def is_valid(self, client: ApiClient) -> bool:
        """Return whether a client that was authenticated earlier may go on, for open streams."""
        current = self._clients.get(client.name)
        return (
            current is not None
            and current.revoked_at is None
            and current.digest == client.digest
            and (
                client.person is None or client.person in self._configuration.current.config.people
            )
        )

    def count_request(self, client: ApiClient) -> None:
        """Count a request; raises RateLimited for too many in a minute."""
        now = self._clock.monotonic()
        bucket = self._buckets.setdefault(client.name, RateBucket(REQUESTS_PER_MINUTE, now))
        wait_s = bucket.wait_s(REQUESTS_PER_MINUTE, now)
        if wait_s:
            raise RateLimited(
                _("This client sends more than {requests_per_minute} requests in a minute.").format(
                    requests_per_minute=REQUESTS_PER_MINUTE
                ),
                retry_after_s=wait_s,
            )

    def admit(self, client: ApiClient) -> AbstractContextManager[None]:
        """Return a context manager that counts a request in progress; raises RateLimited for too many."""
        return self._open.admit(client.name)

    async def count_of(self, person: str) -> dict[str, int]:
        """Return the number of a person's clients by table, for an erasure."""
        count = len(self._live_of(person))
        return {"api_clients": count} if count else {}

    async def end_all_of(self, person: str) -> None:
        """Revoke the clients of a person, with their open requests."""
        for name in self._live_of(person):
            with contextlib.suppress(NotFound):  # revoked meanwhile
                await self.revoke(name)

    def _live_of(self, person: str) -> list[str]:
        clients = self._clients.values()
        return [it.name for it in clients if it.person == person and it.revoked_at is None]

    def _check(self, snapshot: ConfigSnapshot, request: AddApiClient) -> None:
        config, earlier = snapshot.config, self._clients.get(request.name)
        if find_console_gateway(config) is None:
            raise Conflict(
                _(
                    'Clients need a gateway of type console in `gateways`: "console": {{"type": "console"}}.'
                ).format()
            )
        if request.person is None and config.people:
            raise InvalidRequest(
                _("config.json has people: say whose client this is (--person NAME).")
            )
        if request.person is not None and request.person not in config.people:
            names = ", ".join(sorted(config.people)) or _("nobody")
            raise NotFound(
                _("There is no person {person!r} in config.json (it has {names}).").format(
                    person=request.person, names=names
                )
            )
        if earlier is not None and earlier.person != request.person:
            raise Conflict(
                _(
                    "{request} is or was a client of {person}, whose conversations it would show. Choose "
                    "another name."
                ).format(request=request.name, person=earlier.person or _("the operator"))
            )
        if earlier is None and len(self._clients) >= MAX_CLIENTS:
            raise Conflict(
                _("There are {max_clients} clients already, with those that were revoked.").format(
                    max_clients=MAX_CLIENTS
                )
            )
        for agent_id in request.agents:
            snapshot.agent(agent_id)

    def _view(self, client: ApiClient) -> ApiClientView:
        snapshot = self._configuration.current
        names = (client_dm(client.name, it) for it in client.agents or snapshot.config.agents)
        return ApiClientView(
            name=client.name,
            person=client.person,
            agents=client.agents,
            scopes=client.scopes,
            conversations=tuple(sorted(dm for dm in names if dm in snapshot.client_dms)),
            created_at=client.created_at,
            last_used_at=client.last_used_at,
        )

    async def _put_in_force(self, client: ApiClient) -> None:
        others = (it for it in self._clients.values() if it.name != client.name)
        self._set((*others, client))
        await self._announce()

    def _set(self, clients: tuple[ApiClient, ...]) -> None:
        self._clients = {it.name: it for it in clients}
        self._configuration.set_clients(clients)

    async def _announce(self) -> None:
        """Tell the agents and the gateway; after a failure the next sweep does."""
        self._is_announced = False
        try:
            # The role of an agent depends on its conversations, so it has new settings.
            version = await self._configuration.renumber("clients")
        except Unavailable as error:
            log.warning("clients not announced yet", error=error.message)
            return
        await self._versions.announce(version)
        await self._conversations.apply()
        self._is_announced = True


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
