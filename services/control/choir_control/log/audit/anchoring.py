"""The service that makes anchors: one over all logs for a new key, then one a day, and tells the admins."""

from datetime import timedelta

import structlog

from choir_common.eventlog.signature import AuditKeyring, SignatureState
from choir_common.i18n import _, join, ngettext
from choir_common.wire.api_clients import is_client_dm
from choir_control.configuration.current import ConfigService
from choir_control.log.audit.anchor import Anchor
from choir_control.log.audit.anchor_store import AnchorStore, CurrentHead
from choir_control.log.audit.key_file import AuditKeyFile
from choir_control.log.signals.notifier import OutboxRescanner

log = structlog.get_logger("choir.audit")

SWEEP_INTERVAL_S = 600.0
ANCHOR_INTERVAL = timedelta(days=1)
MAX_NAMED = 5
"""Sessions that a notice names."""
NOTICE = _(
    "Audit anchor {number} of {at:%Y-%m-%d %H:%M} UTC. Logs that changed: {count}. "
    "Root:\n{root}\nKeep this message. `choirctl audit verify --root ROOT` shows whether "
    "the logs still match it."
)


class AnchorService:
    """Service that stores anchors and sends their roots to the DMs of admins."""

    def __init__(
        self,
        *,
        keys: AuditKeyFile,
        keyring: AuditKeyring,
        store: AnchorStore,
        configuration: ConfigService,
        outbox: OutboxRescanner,
    ) -> None:
        self._keys = keys
        self._keyring = keyring
        self._store = store
        self._configuration = configuration
        self._outbox = outbox

    async def open(self) -> None:
        """Load the keys; anchor all logs that exist when the first key is made.

        Raises StartupError if the key file is not valid.
        """
        if not await self._keys.load():
            return
        # These logs are from before this key. From now on a change of them is found.
        heads = await self._store.list_heads(anchored_too=True)
        if heads:
            await self._add(heads, [])
        await self._keys.mark_published()
        log.info("audit key made", key=self._keyring.key_ids[-1], logs=len(heads))

    async def sweep(self) -> None:
        """Make the anchor of the day if it is due and a log has changed.

        A log whose head is not signed is left out, and the notice names it: it was not written by choird.
        """
        if not await self._store.is_due(ANCHOR_INTERVAL):
            return
        signed: list[CurrentHead] = []
        unsigned: list[CurrentHead] = []
        for current in await self._store.list_heads(anchored_too=False):
            (signed if self._is_signed(current) else unsigned).append(current)
        if signed or unsigned:
            await self._add(signed, [current.head.session_id for current in unsigned])

    def _is_signed(self, current: CurrentHead) -> bool:
        head = current.head
        state = self._keyring.check_event(current.signature, head.session_id, head.rev, head.hash)
        return state is SignatureState.VALID

    async def _add(self, heads: list[CurrentHead], unsigned: list[str]) -> None:
        snapshot = self._configuration.current
        admins = {
            name: dm.gateway
            for name, dm in snapshot.config.dms.items()
            if snapshot.people.is_admin(name) and not is_client_dm(name)
        }
        warning = None
        if unsigned:
            names = ", ".join(unsigned[:MAX_NAMED])
            warning = ngettext(
                "Warning: {count} log was changed by something else than Choir: {names}. Run `choirctl "
                "session verify` on it.",
                "Warning: {count} logs were changed by something else than Choir: {names}. Run `choirctl "
                "session verify` on each.",
                len(unsigned),
                names=names,
            )
            log.error("logs are not signed", sessions=unsigned)

        def tell(dm: str, anchor: Anchor) -> str:
            count, at = len(heads), anchor.at
            notice = NOTICE.format(number=anchor.number, at=at, count=count, root=anchor.root)
            text = notice if warning is None else join("\n", (notice, warning))
            return self._configuration.translate(dm, text)

        anchor = await self._store.add(tuple(current.head for current in heads), admins, tell)
        for dm in admins:
            self._outbox.rescan(dm)
        log.info("audit anchor stored", number=anchor.number, logs=len(heads), root=anchor.root)
