"""Pairing of unknown users: a code for the user, a decision of an admin, and then a conversation.

A decision is one row of the database. The configuration in memory, the agents and the gateway follow it;
`sweep` completes what a failure interrupted.
"""

import asyncio

import structlog

from choir_common.clock import Clock
from choir_common.errors import ChoirError, Conflict, NotFound, Unavailable
from choir_common.i18n import _, choose_language, translate
from choir_common.wire.api_clients import is_client_dm
from choir_common.wire.channel_config import GatewayConfig, PairingConfig
from choir_common.wire.pairing import (
    PairingOffer,
    PairingView,
    RequestPairing,
    clean_user_name,
    paired_dm,
)
from choir_common.wire.people import IdentityView, PersonView
from choir_control.agents.sessions.config_propagation import ConfigVersionTracker
from choir_control.agents.sessions.conversation_reconciler import ConversationReconciler
from choir_control.configuration.current import ConfigService, ConfigSnapshot
from choir_control.configuration.pairing import PairedUser, is_configured
from choir_control.conversations.outbox.notices import NoticeSender
from choir_control.conversations.pairing.codes import (
    LIFETIME,
    MAX_REQUESTS,
    WaitingUser,
    WrongTries,
    decision_buttons,
    find_waiting,
    format_code,
    new_code,
)
from choir_control.conversations.pairing.store import PairingStore
from choir_control.conversations.pairing.texts import OFFER, WELCOME, format_request

log = structlog.get_logger("choir.pairing")

SWEEP_INTERVAL_S = 60.0


class PairingService:
    """Service that pairs users."""

    def __init__(
        self,
        store: PairingStore,
        *,
        configuration: ConfigService,
        versions: ConfigVersionTracker,
        conversations: ConversationReconciler,
        notices: NoticeSender,
        clock: Clock,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._versions = versions
        self._conversations = conversations
        self._notices = notices
        self._clock = clock
        self._tries = WrongTries(clock)
        self._lock = asyncio.Lock()
        self._users: tuple[PairedUser, ...] = ()
        self._is_announced = True

    async def load(self) -> None:
        """Put the stored conversations in force, at a start: nobody else runs yet."""
        self._users = await self._store.read_paired()
        self._configuration.set_paired(self._users)

    async def sweep(self) -> None:
        """Delete expired requests, and put in force what the table says. Raises Unavailable."""
        async with self._lock:
            await self._store.delete_expired(self._clock.now())
            users = await self._store.read_paired()
            if users != self._users or not self._is_announced:
                await self._put_in_force(users)

    async def request(self, request: RequestPairing) -> PairingOffer:
        """Give an unknown user a code, and ask the admins; nothing if that is not allowed now."""
        snapshot = self._configuration.current
        gateway = snapshot.config.gateways.get(request.gateway)
        if gateway is None or gateway.pairing is None or not _may_ask(snapshot, gateway, request):
            return PairingOffer()
        now = self._clock.now()
        user = WaitingUser(
            gateway=request.gateway,
            user_id=request.user_id,
            dm=paired_dm(request.gateway, request.user_id),
            user_name=clean_user_name(request.user_name),
            code=new_code(),
            expires_at=now + LIFETIME,
        )
        async with self._lock:
            await self._store.delete_expired(now)
            is_new = await self._store.add(user, MAX_REQUESTS)
        if not is_new:
            return PairingOffer()
        log.info("pairing requested", gateway=user.gateway, user_id=user.user_id)
        await self._ask_admins(snapshot, gateway.pairing, user)
        offer = OFFER.format(code=format_code(user.code))
        return PairingOffer(text=translate(offer, choose_language(request.language)))

    async def list_waiting(self) -> list[PairingView]:
        """Return the users who wait for a decision, the oldest first."""
        snapshot, now = self._configuration.current, self._clock.now()
        waiting = await self._store.list_waiting(now)
        gateways = {user.gateway: snapshot.config.gateways.get(user.gateway) for user in waiting}
        return [
            _view(user, gateway.pairing)
            for user in waiting
            if (gateway := gateways[user.gateway]) is not None and gateway.pairing is not None
        ]

    async def decide(self, code: str, *, allow: bool, by: str) -> PairingView:
        """Allow or refuse the user of a code.

        Raises NotFound for a code that nobody has, RateLimited after too many, and Conflict if the gateway
        gives no codes any more or the user is configured already.
        """
        async with self._lock:
            user = await self._find(code, by)
            gateway = self._require_gateway(user)
            pairing = gateway.pairing
            if pairing is None:
                raise Conflict(
                    _("gateways.{gateway} has no `pairing` any more.").format(gateway=user.gateway)
                )
            if not allow:
                await self._store.deny(user)
            else:
                await self._approve(user, gateway, pairing, by)
        log.info("pairing decided", gateway=user.gateway, dm=user.dm, allowed=allow, by=by)
        if allow:
            await self._send(user.dm, user.gateway, WELCOME.format(agent=pairing.agent))
        return _view(user, pairing)

    async def unpair(self, dm: str, *, by: str) -> PairedUser:
        """Take the conversation of a paired user back; raises NotFound."""
        async with self._lock:
            user = next((it for it in self._users if it.dm == dm), None)
            if user is None or not await self._store.unpair(dm):
                raise NotFound(
                    _(
                        "There is no paired user {dm!r}; `choirctl person list` shows them. Users in "
                        "config.json are removed there."
                    ).format(dm=dm[:64])
                )
            await self._put_in_force(tuple(it for it in self._users if it.dm != dm))
        log.info("user unpaired", dm=dm, by=by)
        return user

    def list_people(self) -> list[PersonView]:
        """Return the paired users, also those whose conversations are not in force.

        Those who are linked to a person are among the identities of that person.
        """
        people = self._configuration.current.people
        return [
            self._person(user)
            for user in self._users
            if people.person_of((user.gateway, user.user_id)) is None
        ]

    def find_person(self, dm: str) -> PersonView | None:
        """Return a paired user by the name of the conversation."""
        return next((self._person(user) for user in self._users if user.dm == dm), None)

    def _person(self, user: PairedUser) -> PersonView:
        is_in_force = user.dm in self._configuration.current.paired
        identity = IdentityView(
            gateway=user.gateway,
            user=user.user_id,
            source="pairing",
            dms=(user.dm,) if is_in_force else (),
        )
        return PersonView(
            name=user.dm,
            role=user.role,
            timezone=None,
            language="",
            identities=(identity,),
            user_name=user.user_name,
            approved_by=user.approved_by,
            approved_at=user.approved_at,
        )

    async def _find(self, code: str, by: str) -> WaitingUser:
        self._tries.check(by)
        user = find_waiting(await self._store.list_waiting(self._clock.now()), code)
        if user is None:
            self._tries.add(by)
            raise NotFound(
                _(
                    "Nobody waits with this code; codes are valid for one hour. `choirctl person pair` "
                    "lists who waits."
                )
            )
        return user

    def _require_gateway(self, user: WaitingUser) -> GatewayConfig:
        """Return the gateway of a user who waits; raises Conflict if the user is configured by now."""
        snapshot = self._configuration.current
        gateway = snapshot.config.gateways.get(user.gateway)
        if gateway is None:
            raise Conflict(
                _("There is no gateway {gateway} any more.").format(gateway=user.gateway)
            )
        if is_configured(snapshot.config, user.gateway, user.user_id):
            raise Conflict(_("This user is in config.json already."))
        return gateway

    async def _approve(
        self, user: WaitingUser, gateway: GatewayConfig, pairing: PairingConfig, by: str
    ) -> None:
        paired = PairedUser(
            dm=user.dm,
            gateway=user.gateway,
            user_id=user.user_id,
            channel_type=gateway.type,
            agent_id=pairing.agent,
            role=pairing.role,
            user_name=user.user_name,
            approved_by=by,
            approved_at=self._clock.now(),
        )
        await self._store.approve(paired)
        others = (it for it in self._users if it.dm != paired.dm)
        await self._put_in_force(tuple(sorted((*others, paired), key=lambda it: it.dm)))

    async def _put_in_force(self, users: tuple[PairedUser, ...]) -> None:
        """Replace the paired users; after a failure the next sweep tells the agents and the gateway."""
        self._users, self._is_announced = users, False
        self._configuration.set_paired(users)
        try:
            # The role of an agent depends on its conversations, so it has new settings.
            version = await self._configuration.renumber("pairing")
        except Unavailable as error:
            log.warning("paired users not announced yet", error=error.message)
            return
        await self._versions.announce(version)
        await self._conversations.apply()
        self._is_announced = True

    async def _ask_admins(
        self, snapshot: ConfigSnapshot, pairing: PairingConfig, user: WaitingUser
    ) -> None:
        text = format_request(user, pairing.agent, pairing.role)
        for dm in _find_admins(snapshot, pairing.agent):
            gateway = snapshot.config.dms[dm].gateway
            await self._send(dm, gateway, text, user.code)

    async def _send(self, dm: str, gateway: str, text: str, code: str | None = None) -> None:
        """Send a notice, with buttons if it has a code. What it is about succeeds without it, too."""
        try:
            language = self._configuration.current.people.language_in(dm)
            buttons = decision_buttons(code, language) if code else ()
            await self._notices.send(dm, gateway, text, buttons)
        except ChoirError as error:
            log.warning("no notice about pairing", dm=dm, error=error.message)


def _may_ask(snapshot: ConfigSnapshot, gateway: GatewayConfig, request: RequestPairing) -> bool:
    """Return whether the channel has such users, and this one has no conversation."""
    users = gateway.channel.paired_users
    is_possible = users is not None and users.fullmatch(request.user_id) is not None
    return is_possible and not is_configured(snapshot.config, request.gateway, request.user_id)


def _find_admins(snapshot: ConfigSnapshot, agent_id: str) -> list[str]:
    """Return the admins' conversations of an agent, or else the first of all."""
    agent, people = snapshot.config.agents[agent_id], snapshot.people
    admins = [
        dm for dm in sorted(snapshot.config.dms) if people.is_admin(dm) and not is_client_dm(dm)
    ]
    own = [dm for dm in (agent.defaults.dm, *agent.conversations) if dm in admins]
    return [dm for dm in own if dm] or admins[:1]


def _view(user: WaitingUser, pairing: PairingConfig) -> PairingView:
    return PairingView(
        code=format_code(user.code),
        gateway=user.gateway,
        user=user.user_id,
        user_name=user.user_name,
        dm=user.dm,
        agent=pairing.agent,
        role=pairing.role,
        expires_at=user.expires_at,
    )
