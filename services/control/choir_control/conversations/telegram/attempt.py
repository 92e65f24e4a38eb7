"""One attempt to connect a bot, and its state for operators."""

from dataclasses import dataclass, field
from datetime import datetime

from choir_common.errors import ChoirError
from choir_common.wire.telegram import (
    ConnectionState,
    ConnectTelegram,
    TelegramConnection,
    TelegramConnectionError,
)
from choir_control.conversations.telegram.entries import EntryNames
from choir_control.conversations.telegram.pairing_code import PairingCode

LINK = "https://t.me/{bot}?start={code}"


@dataclass(slots=True)
class ConnectionAttempt:
    """An attempt and what has become of it."""

    connection_id: str
    request: ConnectTelegram = field(repr=False)
    bot: str
    expires_at: datetime
    code: PairingCode = field(default_factory=PairingCode)
    state: ConnectionState = "waiting"
    trouble: str = ""
    user_name: str = ""
    names: EntryNames | None = None
    error: ChoirError | None = None
    remaining: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        """Return True if nothing happens any more."""
        return self.state in ("connected", "failed")

    def fail(self, error: ChoirError) -> None:
        """Record why the bot was not connected."""
        self.state, self.error = "failed", error

    def view(self) -> TelegramConnection:
        """Return the state for operators; it contains no token."""
        names = self.names or EntryNames("", "", "")
        error = self.error
        return TelegramConnection(
            connection_id=self.connection_id,
            agent_id=self.request.agent_id,
            person=self.request.person,
            state=self.state,
            bot=self.bot,
            code=self.code.text,
            link=LINK.format(bot=self.bot, code=self.code.text),
            expires_at=self.expires_at,
            wrong_codes=self.code.wrong,
            trouble=self.trouble,
            user_name=self.user_name,
            gateway=names.gateway,
            dm=names.dm,
            secret=names.secret,
            error=TelegramConnectionError(code=error.code, message=error.message)
            if error
            else None,
            remaining=self.remaining,
        )
