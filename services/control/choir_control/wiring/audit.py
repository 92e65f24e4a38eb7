"""Wiring of the audit of the event log: keys, anchors, verification, and the store that signs events."""

from pathlib import Path

from choir_common.eventlog.signature import AuditKeyring
from choir_common.postgres.pool import Database
from choir_control.configuration.current import ConfigService
from choir_control.log.audit.anchor_store import AnchorStore
from choir_control.log.audit.anchoring import AnchorService
from choir_control.log.audit.key_file import AuditKeyFile
from choir_control.log.audit.verifier import LogVerifier
from choir_control.log.eventlog.store import EventStore
from choir_control.log.signals.notifier import OutboxRescanner


class AuditServices:
    """Services that sign the logs and prove them unchanged."""

    def __init__(
        self,
        *,
        key_file: Path,
        database: Database,
        configuration: ConfigService,
        outbox: OutboxRescanner,
    ) -> None:
        self.keyring = AuditKeyring()
        self.keys = AuditKeyFile(key_file, self.keyring)
        self.events = EventStore(database, self.keyring)
        self.anchors = AnchorStore(database, self.keyring)
        self.verifier = LogVerifier(self.events, self.anchors, self.keyring)
        self.anchoring = AnchorService(
            keys=self.keys,
            keyring=self.keyring,
            store=self.anchors,
            configuration=configuration,
            outbox=outbox,
        )
