"""Rate limits of one business number: messages a second in all, and messages to one user."""

import asyncio
from collections import OrderedDict

from aiolimiter import AsyncLimiter

from choir_common.errors import Unavailable
from choir_common.i18n import _

# Meta allows 80 a second, and 20 to numbers that WhatsApp's own app uses, too. Incoming messages count.
NUMBER_BURST, NUMBER_WINDOW_S = 10, 1.0
# Meta allows one in six seconds to each user, and 45 at once in advance.
USER_BURST, USER_WINDOW_S = 40, 240.0
MAX_USERS = 1000


class NumberRateLimiter:
    """Rate limiter of one business number and its users."""

    def __init__(self) -> None:
        self._number = AsyncLimiter(NUMBER_BURST, NUMBER_WINDOW_S)
        self._users: OrderedDict[str, AsyncLimiter] = OrderedDict()

    async def wait(self, user_id: str, deadline: float) -> None:
        """Wait until a message to this user is allowed.

        Raises Unavailable if that is not before `deadline` (in the event loop's time).
        """
        try:
            async with asyncio.timeout_at(deadline):
                await self._user(user_id).acquire()
                await self._number.acquire()
        except TimeoutError:
            raise Unavailable(
                _("The rate limit of this number is exhausted."), retry_after_s=6.0
            ) from None

    def _user(self, user_id: str) -> AsyncLimiter:
        if user_id not in self._users:
            self._users[user_id] = AsyncLimiter(USER_BURST, USER_WINDOW_S)
            if len(self._users) > MAX_USERS:
                self._users.popitem(last=False)
        self._users.move_to_end(user_id)
        return self._users[user_id]
