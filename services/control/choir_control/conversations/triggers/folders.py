"""Worker that watches folders: created and changed files become deliveries.

It compares the folder with what was stored, at intervals: that works on network shares and in containers,
too, where the kernel reports no changes. A file counts when it has not changed for `settle_s`. Its digest is
the key of its delivery, so neither a restart nor a second name makes a second one.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from choir_common.clock import Clock
from choir_common.errors import NotFound, OutcomeUnknown, TooLarge, Unavailable
from choir_common.redactor import Redactor
from choir_common.wire.model import JsonObject
from choir_common.wire.trigger_config import TriggerConfig
from choir_control.configuration.current import ConfigService
from choir_control.conversations.triggers.folder_scan import (
    FileContent,
    FileState,
    expand_home,
    list_files,
    printable_path,
    read_file,
)
from choir_control.conversations.triggers.folder_store import FOLDER, FolderStore, SeenFile
from choir_control.conversations.triggers.records import NewDelivery, trigger_target
from choir_control.conversations.triggers.store import TriggerStore
from choir_control.conversations.triggers.template import render_text
from choir_control.conversations.triggers.worker import TriggerWorker
from choir_control.request_limits import RateBucket

log = structlog.get_logger("choir.triggers")

SCAN_S = 2.0
IDLE_S = 10.0
"""Pause between two looks at the configuration while it has no folder."""
MAX_PER_SCAN = 20
"""Files of a folder that are delivered in one scan."""


@dataclass(slots=True)
class _FolderState:
    """What is known of a folder since control started."""

    bucket: RateBucket
    unsettled: dict[str, tuple[FileState, float]] = field(default_factory=dict)
    """Changed files, with the monotonic time since when they are as they are."""
    note: str = ""


class FolderWatcher:
    """Watcher of all configured folders."""

    def __init__(
        self,
        store: FolderStore,
        *,
        deliveries: TriggerStore,
        worker: TriggerWorker,
        configuration: ConfigService,
        redactor: Redactor,
        clock: Clock,
    ) -> None:
        self._store = store
        self._deliveries = deliveries
        self._worker = worker
        self._configuration = configuration
        self._redactor = redactor
        self._clock = clock
        self._states: dict[str, _FolderState] = {}

    async def run(self) -> None:
        """Watch the folders until cancelled."""
        while True:
            config = self._configuration.current.config
            triggers = {name: it for name, it in config.triggers.items() if it.type == "folder"}
            try:
                await self._store.prune(list(triggers))
                for name, trigger in triggers.items():
                    await self._scan(name, trigger)
            except (Unavailable, OutcomeUnknown) as error:
                log.warning("watched folders wait for the database", error=error.message)
            except Exception:  # outermost loop of the worker: retry
                log.exception("a folder could not be watched")
            await asyncio.sleep(SCAN_S if triggers else IDLE_S)

    def note_of(self, name: str) -> str:
        """Return why a folder is not watched now; empty if it is."""
        state = self._states.get(name)
        return state.note if state is not None else ""

    def _state(self, name: str, trigger: TriggerConfig) -> _FolderState:
        state = self._states.get(name)
        if state is None:
            bucket = RateBucket(trigger.per_minute, self._clock.monotonic())
            state = self._states[name] = _FolderState(bucket)
        return state

    async def _scan(self, name: str, trigger: TriggerConfig) -> None:
        """Look at a folder once."""
        state, folder = self._state(name, trigger), expand_home(trigger.folder)
        try:
            files = await asyncio.to_thread(list_files, folder, trigger.patterns)
        except (NotFound, TooLarge) as error:
            state.note = error.message
            return
        state.note = ""
        seen = await self._store.read(name)
        folder_row = seen.get(FOLDER)
        if folder_row is None or folder_row.digest != folder:
            await self._store.begin(name, folder, files)
            return
        present = {printable_path(file.path) for file in files}
        if removed := [path for path in seen if path != FOLDER and path not in present]:
            await self._store.forget(name, removed)
        delivered = 0
        for file in self._settled(state, trigger, files=files, seen=seen):
            content = await asyncio.to_thread(read_file, folder, file.path)
            if content is None or content.state != file:
                continue  # it cannot be read, or is being written again
            if not await self._deliver(name, trigger, content=content, seen=seen):
                return
            state.unsettled.pop(file.path, None)
            delivered += 1
            if delivered == MAX_PER_SCAN:
                return

    def _settled(
        self,
        state: _FolderState,
        trigger: TriggerConfig,
        *,
        files: list[FileState],
        seen: Mapping[str, SeenFile],
    ) -> list[FileState]:
        """Return the changed files that have not changed for `settle_s`."""
        now, unsettled = self._clock.monotonic(), dict[str, tuple[FileState, float]]()
        for file in files:
            before = seen.get(printable_path(file.path))
            if before and (before.size, before.modified_ns) == (file.size, file.modified_ns):
                continue
            last = state.unsettled.get(file.path)
            unsettled[file.path] = last if last is not None and last[0] == file else (file, now)
        state.unsettled = unsettled
        return [file for file, since in unsettled.values() if now - since >= trigger.settle_s]

    async def _deliver(
        self,
        name: str,
        trigger: TriggerConfig,
        *,
        content: FileContent,
        seen: Mapping[str, SeenFile],
    ) -> bool:
        """Store a changed file and its delivery; return False if it must wait."""
        path = printable_path(content.state.path)
        if all(file.digest != content.digest for file in seen.values()):
            state = self._state(name, trigger)
            if state.bucket.wait_s(trigger.per_minute, self._clock.monotonic()):
                return False
            values: JsonObject = {
                "event": "changed" if path in seen else "created",
                "name": path.rpartition("/")[2],
                "path": path,
                "size": content.state.size,
                "text": content.text,
            }
            rendered = render_text(trigger.full_template, values).text.replace("\x00", "")
            delivery = NewDelivery(
                target=trigger_target(self._configuration.current.config, name),
                text=self._redactor.redact(rendered),
                key=content.digest,
                size=content.state.size,
                received_at=self._clock.now(),
            )
            # Before the file is recorded: after a kill in between, the same key adds nothing.
            if await self._deliveries.add(delivery) is None:
                return False
            self._worker.wake()
        await self._store.save(name, content.state, content.digest)
        return True
