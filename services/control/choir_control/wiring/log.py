"""Wiring of the event log: appending, signals, metrics, retention and archiving."""

from collections.abc import Sequence
from pathlib import Path

from choir_common.bus.client import Bus
from choir_common.clients.memory import NatsMemoryAdminClient, NatsSessionMemoryClient
from choir_common.metrics import Metrics
from choir_common.postgres.pool import Database
from choir_control.configuration.current import ConfigService
from choir_control.log.archiving.archiver import SessionArchiver
from choir_control.log.archiving.rehearsal_eraser import RehearsalEraser
from choir_control.log.archiving.store import ArchiveStore
from choir_control.log.eventlog.append import EventAppender
from choir_control.log.eventlog.call_results import CallResultQueue
from choir_control.log.leases.authentication import LeaseAuthenticator
from choir_control.log.leases.dm_memory import DmMemoryStore
from choir_control.log.leases.store import LeaseStore
from choir_control.log.metrics.meter import ControlMetrics, GaugeStore
from choir_control.log.retention.content_eraser import SessionContentEraser
from choir_control.log.retention.content_store import SessionContentStore
from choir_control.log.retention.incognito_store import IncognitoStore
from choir_control.log.retention.job import RetentionJob
from choir_control.log.retention.log_eraser import LogEraser
from choir_control.log.retention.log_store import ErasedLogStore
from choir_control.log.retention.reset_store import SessionResetStore
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.notifier import Notifier
from choir_control.log.signals.store import SignalStore
from choir_control.log.signals.streams import SignalStreams
from choir_control.wiring.audit import AuditServices
from choir_control.wiring.conversations import ConversationServices
from choir_control.wiring.money import MoneyServices


class LogServices:
    """The event log and the signals of all sessions."""

    def __init__(
        self,
        *,
        metrics: Metrics,
        database: Database,
        configuration: ConfigService,
        bus: Bus,
        conversations: ConversationServices,
        money: MoneyServices,
        restart_reasons: Sequence[str],
        key_file: Path,
    ) -> None:
        """`restart_reasons` are the end reasons of sessions that the next one continues at once."""
        self.notifier = Notifier()
        self.signal_locks = SignalLocks()
        """By DM: the signals of a session must become visible in the order of their ids."""
        self.signals = SignalStore(database)
        self.leases = LeaseAuthenticator(LeaseStore(database))
        self.signal_streams = SignalStreams(
            store=self.signals,
            notifier=self.notifier,
            authenticator=self.leases,
            file_fetcher=conversations.file_fetcher,
            signal_locks=self.signal_locks,
        )
        self.audit = AuditServices(
            key_file=key_file,
            database=database,
            configuration=configuration,
            outbox=conversations.outbox,
        )
        self.events = self.audit.events
        self.memory_settings = DmMemoryStore(database)
        self.resets = SessionResetStore(database)
        self.content_eraser = self._make_content_eraser(
            database, configuration, conversations, restart_reasons
        )
        self.retention = RetentionJob(database, self.audit.verifier, configuration)
        self.metrics, self.control_metrics = metrics, ControlMetrics(metrics, GaugeStore(database))
        self.call_results = CallResultQueue()
        self.appender = self._make_appender(conversations, money)
        self.archives = ArchiveStore(database)
        self.archiver = self._make_archiver(database, configuration, bus)

    def _make_appender(
        self, conversations: ConversationServices, money: MoneyServices
    ) -> EventAppender:
        return EventAppender(
            store=self.events,
            outbox=conversations.outbox,
            outgoing_files=conversations.outgoing_files,
            listeners=(conversations.activity, self.call_results),
            followers=conversations.following,
            pricer=money.pricer,
            cost_metrics=money.metrics,
            metrics=self.control_metrics,
        )

    def _make_content_eraser(
        self,
        database: Database,
        configuration: ConfigService,
        conversations: ConversationServices,
        restart_reasons: Sequence[str],
    ) -> SessionContentEraser:
        return SessionContentEraser(
            incognito=IncognitoStore(database, restart_reasons),
            resets=self.resets,
            content=SessionContentStore(database),
            logs=LogEraser(self.audit.verifier, ErasedLogStore(database)),
            spool=conversations.spool,
            configuration=configuration,
        )

    def _make_archiver(
        self, database: Database, configuration: ConfigService, bus: Bus
    ) -> SessionArchiver:
        session_memory = NatsSessionMemoryClient(bus)
        return SessionArchiver(
            store=self.archives,
            events=self.events,
            memory=session_memory,
            configuration=configuration,
            rehearsals=RehearsalEraser(database, session_memory, NatsMemoryAdminClient(bus)),
        )
