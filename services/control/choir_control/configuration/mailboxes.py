"""Checks of the gateways with a mailbox and of their users' addresses. Pure functions."""

from collections.abc import Iterator

from choir_common.i18n import _
from choir_common.mail.account import is_loopback
from choir_common.wire.channel_config import MAIL_ADDRESS, MAX_ADDRESS, GatewayConfig
from choir_common.wire.config import Config


def find_mailbox_faults(config: Config) -> Iterator[str]:
    """Yield every fault, with the path in the file and the remedy."""
    for name, gateway in config.gateways.items():
        yield from _mailbox(name, gateway)
    yield from _mail_addresses(config)


def _mailbox(name: str, gateway: GatewayConfig) -> Iterator[str]:
    mailbox = gateway.email
    if gateway.channel.needs_mailbox and mailbox is None:
        yield _(
            "gateways.{name}.email: a {type} gateway needs its mailbox; see docs/email.md"
        ).format(name=name, type=gateway.type)
    if not gateway.channel.needs_mailbox and mailbox is not None:
        yield _("gateways.{name}.email: a {type} gateway has no mailbox; remove it").format(
            name=name, type=gateway.type
        )
    if mailbox is None:
        return
    for key, host, security in (
        ("smtp_security", mailbox.smtp_host, mailbox.smtp_security),
        ("imap_security", mailbox.imap_host, mailbox.imap_security),
    ):
        if security == "none" and not is_loopback(host):
            yield (
                _(
                    "gateways.{name}.email.{key}: password and mail to {host} would be readable in transit; "
                    "use tls or starttls"
                ).format(name=name, key=key, host=host)
            )


def _mail_addresses(config: Config) -> Iterator[str]:
    """Reject users of a mailbox that are no addresses, that differ in case only, or that are the mailbox."""
    first_names: dict[tuple[str, str], str] = {}
    for name, dm in config.dms.items():
        gateway = config.gateways.get(dm.gateway)
        if gateway is None or not gateway.channel.needs_mailbox or dm.user_id is None:
            continue
        if len(dm.user_id) > MAX_ADDRESS or not MAIL_ADDRESS.fullmatch(dm.user_id):
            yield (
                _(
                    "dms.{name}.user_id: {user_id!r} is not a mail address of at most {max_address} "
                    "characters, such as ann@example.org"
                ).format(name=name, user_id=dm.user_id[:100], max_address=MAX_ADDRESS)
            )
        address = dm.user_id.casefold()
        if gateway.email and (gateway.email.address or "").casefold() == address:
            yield _(
                "dms.{name}.user_id: {user_id} is the agent's own mailbox; name the user's address"
            ).format(name=name, user_id=dm.user_id)
        first = first_names.setdefault((dm.gateway, address), name)
        if first != name and config.dms[first].user_id != dm.user_id:
            yield _("dms.{name}: {user_id} is already dms.{first}; remove one of the two").format(
                name=name, user_id=dm.user_id, first=first
            )
