"""Download of a message's files into the workspace, before the agent receives the message.

The gateway serves the files. If a file cannot be fetched, the message names the problem instead; the
wait is bounded.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog
from pydantic import TypeAdapter

from choir_common.clients.gateway import GatewayFilesClient
from choir_common.errors import ChoirError, RateLimited, TooLarge, Unavailable
from choir_common.i18n import _
from choir_common.keyed_lock import KeyedLock
from choir_common.postgres.pool import Database
from choir_common.wire.attachments import Attachment, ReceivedFile
from choir_common.wire.signals import UserMessageSignal
from choir_control.configuration.current import ConfigService
from choir_control.log.leases.store import Lease
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.store import renumber_signals
from choir_control.workspaces.staging import StagedFile, remove_staged_file, safe_name

_ATTACHMENTS: TypeAdapter[tuple[Attachment, ...]] = TypeAdapter(tuple[Attachment, ...])
BATCH = 500

_KEEP = """
WITH told AS (
    UPDATE choir_control.signals SET body = $2::json WHERE inbox_id = $1
), marked AS (
    UPDATE choir_control.inbox SET fetched_at = clock_timestamp() WHERE inbox_id = $1
)
INSERT INTO choir_control.received_files (inbox_id, workspace, path)
SELECT $1, $3, path FROM unnest($4::text[]) AS path ON CONFLICT DO NOTHING
"""
# A turn ends when the reply is in the log, and that event has the time. A row that was closed
# without an answer has its own.
_ANSWERED = """
SELECT f.inbox_id, f.workspace, f.path FROM choir_control.received_files AS f
JOIN choir_control.inbox AS i USING (inbox_id)
LEFT JOIN choir_control.session_events AS e
    ON e.session_id = i.session_id AND e.rev = i.answered_rev
WHERE COALESCE(e.stored_at, i.closed_at) < now() - make_interval(hours => $1) LIMIT $2
"""

log = structlog.get_logger("choir.inbox")
ATTEMPTS = 3
RETRY_WAIT_S = 0.5
MAX_RETRY_WAIT_S = 5.0
# For all files of one message. The user waits meanwhile, and so do later messages of the conversation.
FETCH_TIMEOUT_S = 120.0
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class PendingFiles:
    """A message with files that are not fetched yet."""

    inbox_id: str
    gateway: str
    attachments: tuple[Attachment, ...]


class ReceivedFileStore:
    """Store of the files that came with messages, and of their paths."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_pending(self, inbox_id: str) -> PendingFiles | None:
        """Return a message whose files must be fetched, or None if there are none to fetch."""
        row = await self._database.fetchrow(
            "SELECT gateway, attachments FROM choir_control.inbox "
            "WHERE inbox_id = $1 AND attachments IS NOT NULL AND fetched_at IS NULL",
            inbox_id,
        )
        if row is None:
            return None
        return PendingFiles(
            inbox_id, row["gateway"], _ATTACHMENTS.validate_json(row["attachments"])
        )

    async def exists(self, inbox_id: str) -> bool:
        """Return whether a message still has a signal."""
        return bool(
            await self._database.fetchval(
                "SELECT true FROM choir_control.signals WHERE inbox_id = $1", inbox_id
            )
        )

    async def keep(self, lease: Lease, inbox_id: str, files: Sequence[ReceivedFile]) -> bool:
        """Store the paths of the files in the message's signal, once; return False if it was erased.

        It gets a new number with what follows it in its conversation: the stream has passed by them. The
        caller has the lock of the session's signals.
        """
        paths = [file.path for file in files if file.path]
        async with self._database.transaction() as connection:
            row = await connection.fetchrow(
                "SELECT seq, dm, body FROM choir_control.signals WHERE inbox_id = $1 FOR UPDATE",
                inbox_id,
            )
            if row is None:
                return False
            old = UserMessageSignal.model_validate_json(row["body"])
            body = old.model_copy(update={"attachments": tuple(files)}).model_dump_json()
            await connection.execute(_KEEP, inbox_id, body, lease.bindings.workspace, paths)
            await renumber_signals(connection, lease, row["dm"], row["seq"])
        return True

    async def answered(self, hours: int) -> list[tuple[str, str, str]]:
        """Return (inbox_id, workspace, path) of files whose message was answered `hours` ago or more."""
        rows = await self._database.fetch(_ANSWERED, hours, BATCH)
        return [(row["inbox_id"], row["workspace"], row["path"]) for row in rows]

    async def forget(self, inbox_id: str, path: str) -> None:
        """Delete the row of a file that was removed."""
        await self._database.execute(
            "DELETE FROM choir_control.received_files WHERE inbox_id = $1 AND path = $2",
            inbox_id,
            path,
        )


class FileFetcher:
    """Downloader of the files of messages."""

    def __init__(
        self,
        store: ReceivedFileStore,
        files: GatewayFilesClient,
        configuration: ConfigService,
    ) -> None:
        self._store = store
        self._files = files
        self._configuration = configuration
        # Two streams of a session may overlap, and each file must be fetched once.
        self._locks = KeyedLock()

    async def bring(
        self, lease: Lease, inbox_id: str, *, dm: str, signal_locks: SignalLocks
    ) -> bool:
        """Fetch a message's files into the workspace and give its signals new numbers.

        Return False if the message was erased. Raises Unavailable if the database is unavailable.
        """
        async with self._locks.of(dm):
            pending_files = await self._store.find_pending(inbox_id)
            if pending_files is None:
                return await self._store.exists(inbox_id)
            received_files = await self._fetch_all(lease.bindings.workspace, pending_files)
            async with signal_locks.of(lease.bindings.dm):
                return await self._store.keep(lease, inbox_id, received_files)

    async def tidy(self) -> int:
        """Delete files of messages that were answered long enough ago; return how many."""
        keep_hours = self._configuration.current.config.limits.received_keep_hours
        old = await self._store.answered(keep_hours)
        for inbox_id, workspace, path in old:
            root = self._configuration.workspace_path(workspace)
            if root is not None:
                await asyncio.to_thread(remove_staged_file, root, path)
            await self._store.forget(inbox_id, path)
        return len(old)

    async def _fetch_all(self, workspace: str, pending_files: PendingFiles) -> list[ReceivedFile]:
        deadline = asyncio.get_running_loop().time() + FETCH_TIMEOUT_S
        received_files: list[ReceivedFile] = []
        for number, attachment in enumerate(pending_files.attachments, start=1):
            name = f"{_own_prefix(pending_files.inbox_id, number)}{safe_name(attachment.name)}"
            root = self._configuration.workspace_path(workspace)
            try:
                if root is None:
                    raise Unavailable(
                        _("the workspace {workspace!r} is no longer in config.json").format(
                            workspace=workspace
                        )
                    )
                async with asyncio.timeout_at(deadline):
                    received_files.append(
                        await self._fetch(pending_files.gateway, attachment, root, name)
                    )
            except TimeoutError:
                received_files.append(_lost(attachment, "it took too long to fetch"))
            except ChoirError as error:
                received_files.append(_lost(attachment, error.message))
            except OSError as error:
                received_files.append(_lost(attachment, f"it cannot be stored: {error.strerror}"))
        for file in received_files:
            if file.problem:
                log.warning(
                    "a file could not be fetched",
                    inbox_id=pending_files.inbox_id,
                    error=file.problem,
                )
        return received_files

    async def _fetch(
        self, gateway: str, attachment: Attachment, root: Path, name: str
    ) -> ReceivedFile:
        max_bytes = self._configuration.current.config.limits.received_mb * MIB
        if attachment.size is not None and attachment.size > max_bytes:
            raise TooLarge(_too_large(max_bytes))
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._stream(gateway, attachment, root, name, max_bytes)
            except (Unavailable, RateLimited) as error:
                if attempt == ATTEMPTS:
                    raise
                await asyncio.sleep(
                    min(error.retry_after_s or RETRY_WAIT_S * attempt, MAX_RETRY_WAIT_S)
                )
        raise AssertionError("unreachable")

    async def _stream(
        self, gateway: str, attachment: Attachment, root: Path, name: str, max_bytes: int
    ) -> ReceivedFile:
        draft = await asyncio.to_thread(StagedFile, root, "recv")
        try:
            async with self._files.open(gateway, attachment.ref) as pieces:
                async for piece in pieces:
                    if draft.size + len(piece) > max_bytes:
                        raise TooLarge(_too_large(max_bytes))
                    await asyncio.to_thread(draft.write, piece)
            # `again` allows an existing file: a choird that died after this step left one, not yet
            # announced.
            path = await asyncio.to_thread(partial(draft.finish, name, again=True))
        finally:
            await asyncio.to_thread(draft.close)
        return _got(attachment, path, draft.size)


def _own_prefix(inbox_id: str, number: int) -> str:
    """Return a prefix for the file name that no other message uses."""
    return f"{inbox_id.removeprefix('in_')[-12:]}-{number}-"


def _too_large(max_bytes: int) -> str:
    return f"it has more than {max_bytes // MIB} MB (limits.received_mb)"


def _got(attachment: Attachment, path: str, size: int) -> ReceivedFile:
    return ReceivedFile(
        name=attachment.name, kind=attachment.kind, mime=attachment.mime, size=size, path=path
    )


def _lost(attachment: Attachment, why: str) -> ReceivedFile:
    return ReceivedFile(
        name=attachment.name,
        kind=attachment.kind,
        mime=attachment.mime,
        size=attachment.size or 0,
        problem=why.rstrip(".")[:300],
    )
