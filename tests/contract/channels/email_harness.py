"""Harness of the e-mail channel: a mailbox on a real IMAP server, an SMTP server, and a mail program."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import ClassVar

from choir_common.wire.messages import GatewayBinding
from choir_gateway.channels.email.factory import EmailChannelFactory
from choir_gateway.channels.email.message_ids import short_id
from choir_gateway.channels.interface import ChannelSecrets, ChannelServices
from choir_gateway.channels.spool import FileSpool, SpoolLimits
from tests.contract.channels.harness import ChannelHarness, Failure, ShownMessage, until
from tests.support.mail import (
    PASSWORD,
    USER,
    DataFault,
    ImapServer,
    SmtpHandler,
    running_imap,
    running_smtp,
)
from tests.support.mail_user import ANN, MailUser, local_mailbox, plain_text, shared_certificate

LIMITS = SpoolLimits(1_000_000, 10_000_000, timedelta(days=1))
FAULTS: dict[Failure, DataFault] = {
    "busy": "busy",
    "limit": "limit",
    "cut before": "drop before",
    "cut after": "drop after",
}
CHOICE = re.compile(r"^(\d)  (.+)$", re.MULTILINE)


class EmailHarness(ChannelHarness):
    """A mailbox with one known user."""

    failures: ClassVar[frozenset[Failure]] = frozenset((*FAULTS, "blocked"))
    user_id: ClassVar[str] = ANN
    stranger_id: ClassVar[str] = "eve@choir.test"
    can_edit: ClassVar[bool] = False

    def __init__(self, imap: ImapServer, postman: SmtpHandler, home: Path) -> None:
        mailbox = local_mailbox(imap, postman, mails_per_hour=1_000)
        super().__init__(
            GatewayBinding(name="g", type="email", secret="m", api_url=None, email=mailbox)
        )
        self._postman = postman
        self._ann = MailUser(imap, postman)
        self._eve = MailUser(imap, postman, "eve@choir.test")
        self._ids = dict[str, str]()
        factory = EmailChannelFactory(
            ChannelServices(self.control, self.files, self.conversations, home),
            FileSpool(home / "spool", LIMITS),
        )
        self.channel = factory.make(self.gateway, ChannelSecrets(f"{USER}:{PASSWORD}"))

    @classmethod
    @contextlib.asynccontextmanager
    async def run(cls, home: Path) -> AsyncIterator["EmailHarness"]:
        """Run the channel until the block ends."""
        async with (
            running_imap(shared_certificate(), open_login=True) as imap,
            running_smtp(None, "none") as postman,
        ):
            harness = cls(imap, postman, home)
            running = asyncio.create_task(harness.channel.run())

            async def is_connected() -> bool:
                state = harness.channel.state()
                return state is not None and not state.detail

            try:
                await until(is_connected)
                yield harness
            finally:
                running.cancel()
                await asyncio.wait([running])

    async def send(self, text: str, *, reply_to: ShownMessage | None = None) -> str:
        answers = self._ids[reply_to.message_id] if reply_to else None
        return short_id(self._ann.write(text, answers=answers))

    async def send_as_stranger(self, text: str) -> None:
        self._eve.write(text)

    async def repeat(self) -> None:
        self._ann.write_again()

    async def edit(self, message_id: str, text: str) -> None:
        raise NotImplementedError("a mail cannot be edited")

    async def send_file(self, name: str, content: bytes, text: str) -> None:
        self._ann.write(text, files={name: content})

    async def press(self, shown: ShownMessage, label: str) -> None:
        number = shown.buttons.index(label) + 1
        self._ann.write(f"{number}\n", answers=self._ids[shown.message_id])

    async def shown(self) -> list[ShownMessage]:
        return [self._read(mail) for mail in self._ann.inbox()]

    def fail(self, failure: Failure) -> None:
        if failure == "blocked":
            self._postman.rcpt_answers[ANN] = "550 5.1.1 No such user"
        else:
            self._postman.faults.append(FAULTS[failure])

    def _read(self, mail: EmailMessage) -> ShownMessage:
        message_id = short_id(mail["Message-ID"])
        self._ids[message_id] = str(mail["Message-ID"])
        text = plain_text(mail)
        first = CHOICE.search(text)
        files = {str(it.get_filename()): it.get_content() for it in mail.iter_attachments()}
        return ShownMessage(
            message_id,
            text[: first.start()].strip() if first else text,
            tuple(label for _, label in CHOICE.findall(text)),
            {name: it if isinstance(it, bytes) else it.encode() for name, it in files.items()}
            or None,
            short_id(mail["In-Reply-To"]) if mail["In-Reply-To"] else None,
        )
