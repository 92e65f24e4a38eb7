"""Construction of an e-mail channel. Imported late by `factory`: the mail libraries take 5 MB."""

from choir_common.mail.account import MailAccount
from choir_common.wire.channel_config import MailboxConfig
from choir_common.wire.messages import GatewayBinding
from choir_gateway.channels.email.answers import QuestionAnswerer
from choir_gateway.channels.email.channel import EmailChannel
from choir_gateway.channels.email.mail_budget import MailBudget
from choir_gateway.channels.email.mail_policy import MailPolicy
from choir_gateway.channels.email.mailbox import POLL_S
from choir_gateway.channels.email.mailbox_watcher import MailboxWatcher
from choir_gateway.channels.email.notes import COLLECT_S, NoteMailer, StrangerMailer
from choir_gateway.channels.email.notices import NoticeCombiner
from choir_gateway.channels.email.read_marks import MailboxMarkStore
from choir_gateway.channels.email.receiver import MailReceiver
from choir_gateway.channels.email.sender import EmailSender
from choir_gateway.channels.email.threads import ThreadStore
from choir_gateway.channels.email.trigger_receiver import TriggerMailReceiver
from choir_gateway.channels.interface import ChannelServices
from choir_gateway.channels.spool import FileSpool
from choir_gateway.channels.strangers import StrangerReplies


def make_email_channel(
    gateway: GatewayBinding,
    mailbox: MailboxConfig,
    account: MailAccount,
    *,
    services: ChannelServices,
    spool: FileSpool,
    poll_s: float = POLL_S,
    collect_s: float = COLLECT_S,
) -> EmailChannel:
    """Return the channel of a mailbox."""
    control, files = services.control, services.files
    threads = ThreadStore(spool, gateway.name)
    notices = NoticeCombiner(control, threads, account.address)
    budget = MailBudget(mailbox.mails_per_hour)
    sender = EmailSender(account, files=files, threads=threads, notices=notices, budget=budget)
    notes = NoteMailer(sender, collect_s=collect_s)
    strangers = StrangerReplies(gateway, control=control, notes=StrangerMailer(gateway.name, notes))
    policy = MailPolicy(
        gateway.name, mailbox, address=account.address, conversations=services.conversations
    )
    receiver = MailReceiver(
        gateway.name,
        control=control,
        spool=spool,
        policy=policy,
        answerer=QuestionAnswerer(gateway.name, account.address, control),
        threads=threads,
        notes=notes,
        strangers=strangers,
    )
    triggers = TriggerMailReceiver(gateway.name, control=control, policy=policy, spool=spool)
    watcher = MailboxWatcher(
        gateway.name,
        mailbox,
        account=account,
        secret=gateway.secret or "",
        receiver=receiver,
        trigger_receiver=triggers if gateway.starts_work else None,
        marks=MailboxMarkStore(services.directory / f"{gateway.name}.json"),
        poll_s=poll_s,
    )
    return EmailChannel(
        gateway.name,
        watcher=watcher,
        sender=sender,
        notes=notes,
        strangers=strangers,
        spool=spool,
    )
