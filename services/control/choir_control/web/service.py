"""One-time links and browser sessions: create, use, list and revoke them."""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import timedelta

import structlog

from choir_common.clock import Clock
from choir_common.errors import Conflict, NotFound, Unauthorized
from choir_common.i18n import _
from choir_common.ids import new_id
from choir_control.configuration.current import ConfigService
from choir_control.web.attempts import SignInLimiter
from choir_control.web.store import WebSession, WebSessionStore

LINK_LIFETIME = timedelta(minutes=15)
IDLE_LIFETIME = timedelta(days=7)
LIFETIME = timedelta(days=30)
MARK_USED_AFTER = timedelta(minutes=1)
SWEEP_INTERVAL_S = 3600.0
MAX_USER_AGENT = 300
TOKEN_BYTES = 32

log = structlog.get_logger("choir.web")


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """A new session with its two secrets, which only the browser has."""

    session: WebSession
    token: str
    """For the cookie."""
    key: str
    """For a header of each request; the page stores it for its own origin, which includes the port."""


class WebSessionService:
    """Service of browser sessions."""

    def __init__(
        self,
        store: WebSessionStore,
        *,
        configuration: ConfigService,
        operator_token: str | None,
        clock: Clock,
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._operator_token = operator_token
        self._clock = clock
        self._limiter = SignInLimiter(clock)
        self._revoked: set[str] = set()
        """Sessions that were revoked since the start, so that their open streams end."""

    async def create_link(self, person: str | None) -> str:
        """Return the token of a new one-time link, for a person or for the operator.

        Raises NotFound for an unknown person, and Conflict for one without a console conversation.
        """
        if person is not None:
            self._require_conversation(person)
        token = secrets.token_urlsafe(TOKEN_BYTES)
        await self._store.add_link(_digest(token), person, self._clock.now() + LINK_LIFETIME)
        log.info("web link created", person=person)
        return token

    async def sign_in(
        self, *, link: str | None, token: str | None, address: str, user_agent: str
    ) -> OpenedSession:
        """Open a session for the token of a one-time link, or for the operator token.

        Raises Unauthorized if it is wrong, and RateLimited after too many failures of the address.
        """
        try:
            person = await self._redeem(link) if link is not None else None
            if link is None:
                self._check_operator_token(token or "")
            elif person is not None:
                self._require_person(person)
        except Unauthorized:
            # after the check: many failures behind the same proxy lock nobody out who has a right proof
            self._limiter.check(address)
            self._limiter.count_failure(address)
            log.warning("web sign-in refused", address=address)
            raise
        now = self._clock.now()
        secret, key = (secrets.token_urlsafe(TOKEN_BYTES) for _ in range(2))
        agent = "".join(letter for letter in user_agent if letter.isprintable())[:MAX_USER_AGENT]
        session = WebSession(new_id("web"), person, agent, now, now, now + LIFETIME)
        await self._store.add(session, _digest(f"{secret}.{key}"))
        log.info("web sign-in", web_session_id=session.web_session_id, person=person)
        return OpenedSession(session, secret, key)

    async def authenticate(self, token: str, key: str) -> WebSession:
        """Return the session of a cookie's token and the page's key; raises Unauthorized."""
        now = self._clock.now()
        session = await self._store.find(_digest(f"{token}.{key}"), now, now - IDLE_LIFETIME)
        if session is None or not self.is_valid(session):
            raise Unauthorized(_("This browser is not signed in, or its session has ended."))
        if now - session.last_used_at > MARK_USED_AFTER:
            await self._store.mark_used(session.web_session_id, now)
        return session

    def is_valid(self, session: WebSession) -> bool:
        """Return whether a session that was authenticated earlier may still be used, for open streams."""
        return (
            session.web_session_id not in self._revoked
            and session.expires_at > self._clock.now()
            and (
                session.person is None
                or session.person in self._configuration.current.config.people
            )
        )

    def has_conversation(self, person: str, dm: str) -> bool:
        """Return whether a conversation is a person's own."""
        return self._configuration.current.people.person_in(dm) == person

    def role_of(self, person: str | None) -> str:
        """Return the role of a session's person."""
        if person is None:
            return "operator"
        return self._configuration.current.config.people[person].role

    async def list_live(self) -> list[WebSession]:
        """Return the valid sessions, the last used first."""
        now = self._clock.now()
        return await self._store.list_live(now, now - IDLE_LIFETIME)

    async def revoke(self, web_session_id: str) -> None:
        """End a session, with its open streams; raises NotFound."""
        was_revoked = web_session_id in self._revoked
        self._revoked.add(web_session_id)
        if not await self._store.delete(web_session_id):
            if not was_revoked:
                self._revoked.discard(web_session_id)
            raise NotFound(
                _("There is no web session {web_session_id!r}.").format(
                    web_session_id=web_session_id[:64]
                )
            )
        log.info("web session revoked", web_session_id=web_session_id)

    async def count_of(self, person: str) -> dict[str, int]:
        """Return the number of a person's links and sessions by table."""
        return await self._store.count_of(person)

    async def end_all_of(self, person: str) -> None:
        """Delete a person's links, and end the sessions with their open streams."""
        session_ids = await self._store.delete_of(person)
        self._revoked.update(session_ids)
        log.info("web sessions of a person ended", person=person, sessions=len(session_ids))

    async def sweep(self) -> None:
        """Delete links and sessions that are no longer valid, also those of people who were removed."""
        now = self._clock.now()
        people = tuple(self._configuration.current.config.people)
        await self._store.delete_expired(now, now - IDLE_LIFETIME, people)

    async def _redeem(self, link: str) -> str | None:
        """Use a link up; return its person, or None for the operator."""
        redeemed = await self._store.redeem_link(_digest(link), self._clock.now())
        if redeemed is None:
            raise Unauthorized(
                _("This link was used already or has expired. `choirctl web` prints a new one.")
            )
        return redeemed.person

    def _check_operator_token(self, token: str) -> None:
        if not self._operator_token or not hmac.compare_digest(
            token.encode("utf-8", "surrogateescape"), self._operator_token.encode()
        ):
            raise Unauthorized(_("The operator token is wrong."))

    def _require_person(self, person: str) -> None:
        if person not in self._configuration.current.config.people:
            raise Unauthorized(_("The person of this link is no longer in config.json."))

    def _require_conversation(self, person: str) -> None:
        snapshot = self._configuration.current
        config = snapshot.config
        if person not in config.people:
            names = ", ".join(sorted(config.people)) or _("nobody")
            raise NotFound(
                _("There is no person {person!r} in config.json (it has {names}).").format(
                    person=person[:64], names=names
                )
            )
        for name, dm in config.dms.items():
            is_console = config.gateways[dm.gateway].type == "console"
            if is_console and self.has_conversation(person, name):
                return
        raise Conflict(
            _(
                "{person} has no conversation on a gateway of type console. Add one to `dms`, and its "
                "user to `people.{person}.identities`."
            ).format(person=person)
        )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
