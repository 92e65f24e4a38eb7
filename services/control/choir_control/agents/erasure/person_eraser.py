"""Erase a person: stop the conversation, then erase memory, logs, messages and files, and certify it.

Every step may be repeated, so an erasure that was interrupted is finished by asking for it again. Memory goes
first: from then on it stores nothing more of these sessions. The agents start again afterwards.
"""

import asyncio
import hashlib

import stamina
import structlog

from choir_common.clients.gateway import GatewayClient
from choir_common.clients.memory import MemoryAdminClient, SessionMemoryClient
from choir_common.clock import Clock
from choir_common.errors import ChoirError, Conflict, NotFound
from choir_common.eventlog.chain import canonical_json
from choir_common.eventlog.signature import KEY_ID_BYTES, AuditKeyring
from choir_common.wire.erasure import (
    EraseDmFiles,
    ErasedSession,
    ErasePerson,
    ErasureCertificate,
    PersonErasurePreview,
)
from choir_common.wire.memory_forget import ForgetMemory, ForgetSelection
from choir_common.wire.memory_sessions import EraseSession
from choir_control.agents.erasure.person_store import PersonStore, subtract
from choir_control.agents.operations.progress import OperationProgress
from choir_control.agents.operations.service import OperationService
from choir_control.agents.sessions.record import REASON_FORGET, SessionRow
from choir_control.agents.sessions.start import SessionStarter
from choir_control.agents.sessions.stop import SessionStopper
from choir_control.agents.sessions.store import SessionStore
from choir_control.configuration.current import ConfigService
from choir_control.log.retention.content_eraser import SessionContentEraser
from choir_control.log.retention.reset_store import SessionReset, SessionResetStore
from choir_control.workspaces.staging import STAGING, remove_staged_file

log = structlog.get_logger("choir.erasure")

LOGS_TIMEOUT_S = 120.0
"""A delivery that is under way ends within this time."""
POLL_S = 0.5
ATTEMPTS = 3
"""Memory may learn something between a preview and the erasure."""
NOT_COVERED = (
    "files that agents wrote into their workspaces",
    "notes and documents that operators added to memory",
    "the DM in config.json, and its earlier versions",
    "costs in the ledger: amounts, without text",
    "copies in sessions of other DMs that continued one of these",
    "messages in the messenger itself, and files that `choirctl chat` saved",
    "backups made before, and Postgres' own files until it uses their space again",
)


class _LogsRemain(Exception):
    """Some logs are not erased yet."""


class PersonEraser:
    """Service that previews and carries out the erasure of a DM."""

    def __init__(
        self,
        *,
        store: PersonStore,
        sessions: SessionStore,
        starter: SessionStarter,
        stopper: SessionStopper,
        resets: SessionResetStore,
        content_eraser: SessionContentEraser,
        session_memory: SessionMemoryClient,
        memory: MemoryAdminClient,
        gateway: GatewayClient,
        operations: OperationService,
        configuration: ConfigService,
        keyring: AuditKeyring,
        clock: Clock,
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._starter = starter
        self._stopper = stopper
        self._resets = resets
        self._content_eraser = content_eraser
        self._session_memory = session_memory
        self._memory = memory
        self._gateway = gateway
        self._operations = operations
        self._configuration = configuration
        self._keyring = keyring
        self._clock = clock

    async def preview(self, dm: str) -> PersonErasurePreview:
        """Return what an erasure would remove. Raises NotFound for an unknown DM."""
        sessions = await self._store.list_sessions(dm)
        if not sessions and dm not in self._configuration.current.config.dms:
            raise NotFound(f"There is no DM {dm!r} in config.json, and no session was in it.")
        session_ids = [session.session_id for session in sessions]
        return PersonErasurePreview(
            dm=dm,
            digest=hashlib.sha256("\n".join([dm, *session_ids]).encode()).hexdigest(),
            sessions=tuple(sessions),
            places=await self._store.count_rows(dm, session_ids),
            running=tuple(await self._store.list_unfinished_agents(dm)),
        )

    async def erase(self, dm: str, request: ErasePerson) -> str:
        """Start the erasure; return the operation's id. Its result is the certificate.

        Raises NotFound, and Conflict if a session started since the preview.
        """
        preview = await self.preview(dm)
        if preview.digest != request.expected_digest:
            raise Conflict(
                f"A session started in {dm} since the preview. Nothing was erased; look at a new preview."
            )

        async def work(progress: OperationProgress) -> ErasureCertificate:
            return await self._erase(preview, progress)

        return await self._operations.begin("person erase", dm, frozenset({f"dm {dm}"}), work)

    async def _erase(
        self, preview: PersonErasurePreview, progress: OperationProgress
    ) -> ErasureCertificate:
        dm, session_ids = preview.dm, [session.session_id for session in preview.sessions]
        restarts: list[SessionRow] = []
        try:
            for agent_id in preview.running:
                progress.progress(f"stopping {agent_id}")
                row = await self._sessions.find_unfinished(agent_id)
                if row is not None and row.is_live:
                    restarts.append(row)
                await self._stopper.stop(agent_id, REASON_FORGET)
                await self._stopper.give_up(agent_id, REASON_FORGET)
            progress.progress("erasing memory")
            documents = 0
            for session in preview.sessions:
                await self._resets.put(session.session_id, SessionReset("nothing"))
                documents += await self._erase_memory(session)
            progress.progress("erasing logs and messages")
            await self._erase_logs(dm, session_ids)
            progress.progress("erasing files")
            files = (await self._gateway.erase_files(EraseDmFiles(dm=dm))).files
            remaining = await self._store.count_rows(dm, session_ids)
        finally:
            for row in restarts:
                await self._starter.restart(row.agent_id, row.initial_bindings, row.image)
        removed = subtract(preview.places, remaining)
        return self._certify(
            preview, {**removed, "memory documents": documents, "gateway files": files}, remaining
        )

    async def _erase_memory(self, session: ErasedSession) -> int:
        """Erase a session from memory; return the number of documents."""
        selection = ForgetSelection(session_id=session.session_id)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                preview = await self._memory.forget(
                    ForgetMemory(agent_id=session.agent_id, selection=selection)
                )
                exact = selection.model_copy(update={"expected_digest": preview.digest})
                done = await self._memory.forget(
                    ForgetMemory(agent_id=session.agent_id, selection=exact)
                )
                more = await self._session_memory.erase(
                    EraseSession(agent_id=session.agent_id, session_id=session.session_id)
                )
                return done.total + more.documents
            except NotFound:
                return 0  # the agent has no memory
            except Conflict:
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError("the loop returns or raises")

    async def _erase_logs(self, dm: str, session_ids: list[str]) -> None:
        # The files first: the rows that name them are deleted next.
        for workspace, path in await self._store.list_received_files(dm):
            root = self._configuration.workspace_path(workspace)
            if root is not None and path.startswith(f"{STAGING}/"):
                await asyncio.to_thread(remove_staged_file, root, path)
        await self._store.close_conversation(dm, session_ids)
        self._content_eraser.wake()
        try:
            async for attempt in stamina.retry_context(
                on=_LogsRemain,
                attempts=None,
                timeout=LOGS_TIMEOUT_S,
                wait_initial=0.1,
                wait_max=POLL_S,
            ):
                with attempt:
                    if await self._store.count_unerased(session_ids):
                        raise _LogsRemain
        except _LogsRemain:
            raise ChoirError(
                f"Logs of {dm} are not erased yet: a delivery or an approved change is under way. They "
                "are erased as soon as it ends; ask again then, for the certificate."
            ) from None
        await self._store.erase_rows(dm, session_ids)

    def _certify(
        self, preview: PersonErasurePreview, removed: dict[str, int], remaining: dict[str, int]
    ) -> ErasureCertificate:
        certificate = ErasureCertificate(
            dm=preview.dm,
            at=self._clock.now(),
            sessions=preview.sessions,
            removed=removed,
            remaining=remaining,
            not_covered=NOT_COVERED,
        )
        content = certificate.model_dump(mode="json", exclude={"key_id", "signature"})
        signature = self._keyring.sign("certificate", canonical_json(content).decode())
        log.info("person erased", dm=preview.dm, sessions=len(preview.sessions))
        return certificate.model_copy(
            update={
                "key_id": signature[:KEY_ID_BYTES].hex(),
                "signature": signature[KEY_ID_BYTES:].hex(),
            }
        )
