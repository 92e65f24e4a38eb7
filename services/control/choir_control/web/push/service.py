"""Subscriptions of browsers to notifications: store, show and delete them."""

import structlog

from choir_common.errors import Unauthorized
from choir_control.web.push.client import PushClient
from choir_control.web.push.encryption import SubscriptionSecrets
from choir_control.web.push.store import PushStore
from choir_control.web.push.vapid import VapidKeyPair

log = structlog.get_logger("choir.web.push")


class PushService:
    """Service of the subscriptions; each browser session has at most one."""

    def __init__(self, store: PushStore, client: PushClient) -> None:
        self._store = store
        self._client = client
        self._key: VapidKeyPair | None = None

    async def key(self) -> VapidKeyPair:
        """Return the key of this Choir, which is made once: another one would end all subscriptions."""
        if self._key is None:
            new = VapidKeyPair.generate().to_bytes()
            self._key = VapidKeyPair.from_bytes(await self._store.read_or_add_key(new))
        return self._key

    async def subscribe(self, web_session_id: str, endpoint: str, p256dh: str, auth: str) -> None:
        """Store where a browser is notified, in place of what it had.

        Raises InvalidRequest for an address that Choir may not send to and for unusable keys, and
        Unauthorized if the session ended meanwhile.
        """
        keys = SubscriptionSecrets.parse(p256dh, auth)
        await self._client.check_endpoint(endpoint)
        if not await self._store.put(web_session_id, endpoint, keys.p256dh, keys.auth):
            raise Unauthorized("The session of this browser has ended.")
        log.info("web push subscribed", web_session_id=web_session_id)

    async def is_subscribed(self, web_session_id: str) -> bool:
        """Return whether a browser is notified."""
        return await self._store.exists(web_session_id)

    async def unsubscribe(self, web_session_id: str) -> None:
        """Notify a browser no more; nothing happens if it was not."""
        await self._store.delete(web_session_id)
        log.info("web push unsubscribed", web_session_id=web_session_id)
