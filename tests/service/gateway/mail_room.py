"""A mailbox with its two servers and a fake control, for tests of the e-mail channel in their own process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from choir_common.errors import ChoirError, Unavailable
from choir_common.wire.attachments import Attachment, Button
from choir_common.wire.events import ReplyKind
from choir_common.wire.messages import (
    ChannelTable,
    DmBinding,
    EditTarget,
    GatewayBinding,
    InboundAccepted,
    InboundMessage,
    OutboundMessage,
)
from choir_gateway.channels.email.account import make_account
from choir_gateway.channels.email.channel import EmailChannel
from choir_gateway.channels.email.parts import make_email_channel
from choir_gateway.channels.interface import ChannelServices, ConversationDirectory
from choir_gateway.channels.spool import FileSpool, SpoolLimits
from choir_testing.fake_control_inbox import FakeControlClient
from choir_testing.fake_outbox_files import FakeOutboxFiles
from tests.support.mail import PASSWORD, USER, ImapServer, SmtpHandler
from tests.support.mail_user import ANN, MailUser, local_mailbox

BOB = "bob@choir.test"
WITHIN_S = 200.0


class RefusingControl(FakeControlClient):
    """Control that can be unavailable, and that adds a note to what it accepts."""

    is_away = False
    attempts = 0
    note: str | None = None

    async def accept(self, message: InboundMessage) -> InboundAccepted:
        self.attempts += 1
        if self.is_away:
            raise Unavailable()
        accepted = await super().accept(message)
        return accepted.model_copy(update={"note": self.note})


@dataclass
class MailRoom:
    """The servers of a mailbox, its users, and control."""

    imap: ImapServer
    postman: SmtpHandler
    home: Path
    control: RefusingControl = field(init=False)
    files: FakeOutboxFiles = field(default_factory=FakeOutboxFiles)
    conversations: ConversationDirectory = field(default_factory=ConversationDirectory)
    spool: FileSpool = field(init=False)
    pairing: bool = False
    login: str = f"{USER}:{PASSWORD}"
    starts_work: bool = False
    """Whether triggers take mail of others than Ann and Bob."""

    def __post_init__(self) -> None:
        dms = (
            DmBinding(name="ann", gateway="mail", user_id=ANN, admin=True),
            DmBinding(name="bob", gateway="mail", user_id=BOB, admin=False),
        )
        self.control = RefusingControl(ChannelTable(config_version=1, gateways=(), dms=dms))
        self.conversations.replace(dms)
        limits = SpoolLimits(1_000_000, 10_000_000, timedelta(days=1))
        self.spool = FileSpool(self.home / "spool", limits)
        self.ann = MailUser(self.imap, self.postman)
        self.bob = MailUser(self.imap, self.postman, BOB)

    @contextlib.asynccontextmanager
    async def running(
        self, *, poll_s: float = 60.0, **settings: object
    ) -> AsyncIterator[EmailChannel]:
        """Run a channel until the block ends; wait until it has read the mailbox."""
        channel = self.make_channel(poll_s=poll_s, **settings)
        running = asyncio.create_task(channel.run())
        try:
            async with asyncio.timeout(WITHIN_S):
                while channel.state().detail:
                    await asyncio.sleep(0.02)
            yield channel
        finally:
            running.cancel()
            await asyncio.wait([running])

    def make_channel(self, *, poll_s: float = 60.0, **settings: object) -> EmailChannel:
        """Return a channel that does not run yet."""
        mailbox = local_mailbox(self.imap, self.postman, **settings)
        gateway = GatewayBinding(
            name="mail",
            type="email",
            secret="mail-login",
            api_url=None,
            email=mailbox,
            pairing=self.pairing,
            starts_work=self.starts_work,
        )
        return make_email_channel(
            gateway,
            mailbox,
            make_account(mailbox, self.login),
            services=ChannelServices(
                self.control, self.files, self.conversations, self.home / "email"
            ),
            spool=self.spool,
            poll_s=poll_s,
            collect_s=0.3,
        )

    def say(
        self,
        text: str,
        *,
        dm: str = "ann",
        kind: ReplyKind = "answer",
        buttons: tuple[Button, ...] = (),
        files: dict[str, bytes | ChoirError] | None = None,
        edits: EditTarget | None = None,
        answers: str | None = "in_1",
        reply_to: str | None = None,
    ) -> OutboundMessage:
        """Store a message in the outbox; it is not delivered."""
        outbox_id = len(self.control.outbox) + 1
        attachments = list[Attachment]()
        for number, (name, content) in enumerate((files or {}).items()):
            self.files.files[outbox_id, str(number)] = content
            attachments.append(Attachment(name=name, kind="document", ref=str(number)))
        message = OutboundMessage(
            outbox_id=outbox_id,
            dm=dm,
            gateway="mail",
            agent_id="main",
            session_id=None if kind == "notice" else "s",
            rev=outbox_id,
            kind=kind,
            text=text,
            answers=None if kind == "notice" else answers,
            at=datetime.now(UTC),
            attachments=tuple(attachments),
            buttons=buttons,
            edits=edits,
            reply_to=reply_to,
        )
        self.control.outbox.append(message)
        return message

    def texts(self) -> list[str]:
        """Return the texts that control has accepted."""
        return [message.text for message in self.control.accepted]

    async def until_accepted(self, count: int) -> list[InboundMessage]:
        """Wait until control has accepted so many messages; return them."""
        async with asyncio.timeout(WITHIN_S):
            while len(self.control.accepted) < count:
                await asyncio.sleep(0.02)
        return self.control.accepted

    async def until_mailed(self, user: MailUser, count: int) -> None:
        """Wait until a user got so many mails."""
        async with asyncio.timeout(WITHIN_S):
            while len(user.inbox()) < count:
                await asyncio.sleep(0.02)
