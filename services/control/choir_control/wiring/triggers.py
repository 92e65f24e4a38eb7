"""Wiring of triggers: hooks, watched folders, mail, and the worker that gives their deliveries to agents."""

from choir_common.clock import Clock
from choir_common.postgres.pool import Database
from choir_common.redactor import Redactor
from choir_control.configuration.current import ConfigService
from choir_control.configuration.secrets.store import SecretStore
from choir_control.conversations.triggers.folder_store import FolderStore
from choir_control.conversations.triggers.folders import FolderWatcher
from choir_control.conversations.triggers.hooks import HookService
from choir_control.conversations.triggers.mail import MailTriggerService
from choir_control.conversations.triggers.overview import TriggerOverview
from choir_control.conversations.triggers.store import TriggerStore
from choir_control.conversations.triggers.worker import TriggerWorker
from choir_control.wiring.log import LogServices


class TriggerServices:
    """The store, the services and the worker of triggers."""

    def __init__(
        self,
        *,
        database: Database,
        configuration: ConfigService,
        secrets: SecretStore,
        log: LogServices,
        redactor: Redactor,
        clock: Clock,
    ) -> None:
        store = TriggerStore(database)
        self.worker = TriggerWorker(
            store,
            configuration=configuration,
            notifier=log.notifier,
            signal_locks=log.signal_locks,
            clock=clock,
        )
        self.hooks = HookService(
            store,
            worker=self.worker,
            configuration=configuration,
            secrets=secrets,
            redactor=redactor,
            clock=clock,
        )
        self.mail = MailTriggerService(
            store,
            worker=self.worker,
            configuration=configuration,
            redactor=redactor,
            clock=clock,
        )
        self.folders = FolderWatcher(
            FolderStore(database),
            deliveries=store,
            worker=self.worker,
            configuration=configuration,
            redactor=redactor,
            clock=clock,
        )
        self.overview = TriggerOverview(
            store, folders=self.folders, mail=self.mail, configuration=configuration
        )
