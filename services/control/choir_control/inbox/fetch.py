"""Download of a message's files into the workspace, before the agent receives the message.

Called by `signals.follow` for messages with pending files. The gateway serves the files. If a file
cannot be fetched, the message names the problem instead; the wait is bounded.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from choir_common.clients.gateway_files import GatewayFiles
from choir_common.errors import ChoirError, RateLimited, TooLarge, Unavailable
from choir_common.wire.attachments import Attachment, ReceivedFile
from choir_common.wire.config import FileLimits
from choir_control.inbox.received_store import ReceivedStore, Waiting
from choir_control.leases.store import Lease
from choir_control.workspaces.naming import safe_name
from choir_control.workspaces.staging import Draft, remove

log = structlog.get_logger("choir.inbox")

ATTEMPTS = 3
PAUSE_S = 0.5
LONGEST_PAUSE_S = 5.0
# For all files of one message. The user waits meanwhile, and so do later messages.
WITHIN_S = 120.0
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Places:
    """The workspaces and limits for received files."""

    workspace_of: Callable[[str], Path | None]
    limits: Callable[[], FileLimits]


class Fetching:
    """Downloader of the files of messages."""

    def __init__(self, store: ReceivedStore, files: GatewayFiles, places: Places) -> None:
        self._store = store
        self._files = files
        self._places = places
        # Two streams of a session may overlap, and each file must be fetched once.
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def bring(self, lease: Lease, inbox_id: str) -> str:
        """Fetch a message's files into the workspace and return its signal as JSON text.

        Raises Unavailable if the database is unavailable.
        """
        async with self._turns[lease.dm]:
            waiting = await self._store.waiting(inbox_id)
            if waiting is None:
                return await self._store.signal(inbox_id)
            received = await self._fetch_all(lease.bindings.workspace, waiting)
            return await self._store.keep(inbox_id, lease.bindings.workspace, received)

    async def tidy(self) -> int:
        """Delete files of messages that were answered long enough ago; return how many."""
        old = await self._store.answered(self._places.limits().received_keep_hours)
        for inbox_id, workspace, path in old:
            root = self._places.workspace_of(workspace)
            if root is not None:
                await asyncio.to_thread(remove, root, path)
            await self._store.forget(inbox_id, path)
        return len(old)

    async def _fetch_all(self, workspace: str, waiting: Waiting) -> list[ReceivedFile]:
        deadline = asyncio.get_running_loop().time() + WITHIN_S
        received: list[ReceivedFile] = []
        for number, attachment in enumerate(waiting.attachments, start=1):
            name = f"{_own_prefix(waiting.inbox_id, number)}{safe_name(attachment.name)}"
            root = self._places.workspace_of(workspace)
            try:
                if root is None:
                    raise Unavailable(f"the workspace {workspace!r} is no longer in config.json")
                async with asyncio.timeout_at(deadline):
                    received.append(await self._fetch(waiting.gateway, attachment, root, name))
            except TimeoutError:
                received.append(_lost(attachment, "it took too long to fetch"))
            except ChoirError as error:
                received.append(_lost(attachment, error.message))
            except OSError as error:
                received.append(_lost(attachment, f"it cannot be stored: {error.strerror}"))
        for file in received:
            if file.problem:
                log.warning("a file could not be had", inbox_id=waiting.inbox_id, why=file.problem)
        return received

    async def _fetch(
        self, gateway: str, attachment: Attachment, root: Path, name: str
    ) -> ReceivedFile:
        most = self._places.limits().received_mb * MIB
        if attachment.size is not None and attachment.size > most:
            raise TooLarge(_too_large(most))
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._stream(gateway, attachment, root, name, most)
            except (Unavailable, RateLimited) as error:
                if attempt == ATTEMPTS:
                    raise
                await asyncio.sleep(min(error.retry_after_s or PAUSE_S * attempt, LONGEST_PAUSE_S))
        raise AssertionError("unreachable")

    async def _stream(
        self, gateway: str, attachment: Attachment, root: Path, name: str, most: int
    ) -> ReceivedFile:
        draft = await asyncio.to_thread(Draft, root, "recv")
        try:
            async with self._files.open(gateway, attachment.ref) as pieces:
                async for piece in pieces:
                    if draft.size + len(piece) > most:
                        raise TooLarge(_too_large(most))
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


def _too_large(most: int) -> str:
    return f"it has more than {most // MIB} MB (limits.received_mb)"


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
