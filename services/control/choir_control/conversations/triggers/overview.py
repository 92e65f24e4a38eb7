"""The triggers of config.json as operators see them: watched folders and mail."""

from choir_common.errors import NotFound
from choir_common.i18n import _
from choir_common.wire.triggers import DeliveryView, TriggerView
from choir_control.configuration.current import ConfigService
from choir_control.conversations.triggers.folders import FolderWatcher
from choir_control.conversations.triggers.mail import MailTriggerService
from choir_control.conversations.triggers.records import OpenDeliveries, trigger_target
from choir_control.conversations.triggers.store import TriggerStore


class TriggerOverview:
    """Views of the configured triggers and of their deliveries."""

    def __init__(
        self,
        store: TriggerStore,
        *,
        folders: FolderWatcher,
        mail: MailTriggerService,
        configuration: ConfigService,
    ) -> None:
        self._store = store
        self._folders = folders
        self._mail = mail
        self._configuration = configuration

    async def list_all(self) -> list[TriggerView]:
        """Return the configured triggers, by name."""
        counts = await self._store.count_open()
        return [
            self._view(name, counts) for name in sorted(self._configuration.current.config.triggers)
        ]

    async def list_deliveries(self, name: str, *, before: int, limit: int) -> list[DeliveryView]:
        """Return the deliveries of a trigger, the newest first. Raises NotFound."""
        triggers = self._configuration.current.config.triggers
        if name not in triggers:
            names = ", ".join(sorted(triggers)) or _("none")
            raise NotFound(
                _("There is no trigger {name!r} in config.json (it has {names}).").format(
                    name=name[:80], names=names
                )
            )
        type_ = triggers[name].type
        return await self._store.list_page(type_, name, before=before, limit=limit)

    def _view(self, name: str, counts: dict[tuple[str, str], OpenDeliveries]) -> TriggerView:
        config = self._configuration.current.config
        trigger, target = config.triggers[name], trigger_target(config, name)
        count = counts.get((trigger.type, name), OpenDeliveries())
        state = self._mail.state_of(name, trigger)
        rule = trigger.mail
        return TriggerView(
            name=name,
            type=trigger.type,
            folder=trigger.folder,
            patterns=rule.senders if rule else trigger.patterns,
            gateway=rule.gateway if rule else None,
            subject=rule.subject if rule else "",
            agent_id=target.agent_id,
            dm=target.dm,
            kind=trigger.kind,
            waiting=count.waiting,
            running=count.running,
            refused=state.refused,
            last_refusal=state.last_refusal,
            note="" if rule else self._folders.note_of(name),
        )
