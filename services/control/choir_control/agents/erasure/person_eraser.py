"""Erase a person: stop the conversations, then erase memory, logs, messages and files, and certify it.

A person in `people` is erased in all conversations of the person's identities, in one operation. Other users
are erased by their DM.

Every step may be repeated, so an erasure that was interrupted is finished by asking for it again. Memory goes
first: from then on it stores nothing more of these sessions. The agents start again afterwards.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Protocol

import stamina
import structlog

from choir_common.clients.gateway import GatewayClient
from choir_common.clients.memory import MemoryAdminClient, SessionMemoryClient
from choir_common.clock import Clock
from choir_common.errors import ChoirError, Conflict, NotFound
from choir_common.eventlog.chain import canonical_json
from choir_common.eventlog.signature import KEY_ID_BYTES, AuditKeyring
from choir_common.i18n import _
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
from choir_control.configuration.people import Identity
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
    "DMs and `people` in config.json, with earlier versions, and linked identities",
    "what the person said in groups: erase the group's DM for that",
    "how far gateways have read messengers: ids and times, without text",
    "digests of WhatsApp's message ids, for eight days: a repetition must not bring a message back",
    "costs in the ledger: amounts, without text",
    "copies in sessions of other DMs that continued one of these",
    "notices to admins that an unknown user asked for a conversation",
    "messages in the messenger itself, and files that `choirctl chat` saved",
    "backups made before, and Postgres' own files until it uses their space again",
)


class PairedUsers(Protocol):
    """Paired users, as seen by an erasure, which deletes the row of a conversation."""

    async def sweep(self) -> None:
        """Put the rows of the database in force; raises Unavailable."""


class PersonAccess(Protocol):
    """Ways of people to the endpoint, as seen by an erasure: browsers at the web page, and clients."""

    async def count_of(self, person: str) -> dict[str, int]:
        """Return the number of a person's rows by table."""

    async def end_all_of(self, person: str) -> None:
        """Take the access away, with open streams."""


class _LogsRemain(Exception):
    """Some logs are not erased yet."""


class PersonEraser:
    """Service that previews and carries out the erasure of a DM or a person."""

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
        paired: PairedUsers,
        accesses: Sequence[PersonAccess],
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
        self._paired = paired
        self._accesses = accesses
        self._keyring = keyring
        self._clock = clock

    async def preview(self, dm: str) -> PersonErasurePreview:
        """Return what an erasure of a DM would remove. Raises NotFound for an unknown DM."""
        preview = await self._preview((dm,), dm=dm)
        if not preview.sessions and dm not in self._configuration.current.config.dms:
            raise NotFound(
                _("There is no DM {dm!r} in config.json, and no session was in it.").format(dm=dm)
            )
        return preview

    async def preview_person(self, name: str) -> PersonErasurePreview:
        """Return what an erasure of a person would remove, in all the person's DMs. Raises NotFound."""
        snapshot = self._configuration.current
        if name not in snapshot.config.people:
            raise NotFound(_("There is no person {name!r} in config.json.").format(name=name[:64]))
        dms = (dm for dm in sorted(snapshot.config.dms) if snapshot.people.person_in(dm) == name)
        return await self._preview(tuple(dms), person=name)

    async def erase(self, dm: str, request: ErasePerson) -> str:
        """Start the erasure of a DM; return the operation's id. Its result is the certificate.

        Raises NotFound, and Conflict if a session started since the preview.
        """
        return await self._begin(await self.preview(dm), request)

    async def erase_person(self, name: str, request: ErasePerson) -> str:
        """Start the erasure of a person, as `erase` does of a DM."""
        return await self._begin(await self.preview_person(name), request)

    async def _preview(
        self, dms: tuple[str, ...], *, dm: str = "", person: str = ""
    ) -> PersonErasurePreview:
        sessions = await self._store.list_sessions(dms)
        session_ids = [session.session_id for session in sessions]
        return PersonErasurePreview(
            dm=dm,
            person=person,
            dms=dms,
            digest=hashlib.sha256("\n".join([*dms, *session_ids]).encode()).hexdigest(),
            sessions=tuple(sessions),
            places=await self._count_places(dms, session_ids, person),
            running=tuple(await self._store.list_unfinished_agents(dms)),
        )

    async def _count_places(
        self, dms: Sequence[str], session_ids: Sequence[str], person: str
    ) -> dict[str, int]:
        """Return the number of rows by table; `person` is empty for the erasure of a DM."""
        counts = await self._store.count_rows(dms, session_ids)
        for access in self._accesses if person else ():
            counts |= await access.count_of(person)
        return counts

    async def _begin(self, preview: PersonErasurePreview, request: ErasePerson) -> str:
        subject = preview.person or preview.dm
        if preview.digest != request.expected_digest:
            raise Conflict(
                _(
                    "The DMs or sessions of {subject} are others than in the preview. Nothing was erased; "
                    "look at a new preview."
                ).format(subject=subject)
            )
        identities = {dm: self._identity_in(dm) for dm in preview.dms}

        async def work(progress: OperationProgress) -> ErasureCertificate:
            return await self._erase(preview, identities, progress)

        exclusive = frozenset(f"dm {dm}" for dm in preview.dms)
        return await self._operations.begin("person erase", subject, exclusive, work)

    def _identity_in(self, dm: str) -> Identity:
        """Return the gateway and the user of a DM; empty for a group, and if it is not configured."""
        return self._configuration.current.people.identity_in(dm) or ("", "")

    async def _erase(
        self,
        preview: PersonErasurePreview,
        identities: Mapping[str, Identity],
        progress: OperationProgress,
    ) -> ErasureCertificate:
        dms, session_ids = preview.dms, [session.session_id for session in preview.sessions]
        restarts: list[SessionRow] = []
        try:
            if preview.person:
                # first: a browser could write more
                progress.progress("signing browsers and clients out")
                for access in self._accesses:
                    await access.end_all_of(preview.person)
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
            await self._erase_logs(dms, session_ids)
            # before the agents start again: they would serve the conversation
            await self._paired.sweep()
            progress.progress("erasing files")
            for_gateway = await self._erase_at_gateway(identities)
            remaining = await self._count_places(dms, session_ids, preview.person)
        finally:
            for row in restarts:
                await self._starter.restart(row.agent_id, row.initial_bindings, row.image)
        removed = subtract(preview.places, remaining)
        removed |= {"memory documents": documents, **for_gateway}
        return self._certify(preview, removed, remaining)

    async def _erase_at_gateway(self, identities: Mapping[str, Identity]) -> dict[str, int]:
        """Erase files of DMs, and what channels stored about their users; return the numbers."""
        files = records = 0
        for dm, (gateway, user_id) in identities.items():
            answer = await self._gateway.erase_files(
                EraseDmFiles(dm=dm, gateway=gateway, user_id=user_id)
            )
            files, records = files + answer.files, records + answer.records
        return {"gateway files": files, "gateway records of users": records}

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

    async def _erase_logs(self, dms: Sequence[str], session_ids: list[str]) -> None:
        # The files first: the rows that name them are deleted next.
        for workspace, path in await self._store.list_received_files(dms):
            root = self._configuration.workspace_path(workspace)
            if root is not None and path.startswith(f"{STAGING}/"):
                await asyncio.to_thread(remove_staged_file, root, path)
        await self._store.close_conversation(dms, session_ids)
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
                _(
                    "Logs of {dms} are not erased yet: a delivery or an approved change is under way. They "
                    "are erased as soon as it ends; ask again then, for the certificate."
                ).format(dms=", ".join(dms))
            ) from None
        await self._store.erase_rows(dms, session_ids)

    def _certify(
        self, preview: PersonErasurePreview, removed: dict[str, int], remaining: dict[str, int]
    ) -> ErasureCertificate:
        certificate = ErasureCertificate(
            dm=preview.dm,
            person=preview.person,
            dms=preview.dms,
            at=self._clock.now(),
            sessions=preview.sessions,
            removed=removed,
            remaining=remaining,
            not_covered=NOT_COVERED,
        )
        content = certificate.model_dump(mode="json", exclude={"key_id", "signature"})
        signature = self._keyring.sign("certificate", canonical_json(content).decode())
        log.info("person erased", dms=preview.dms, sessions=len(preview.sessions))
        return certificate.model_copy(
            update={
                "key_id": signature[:KEY_ID_BYTES].hex(),
                "signature": signature[KEY_ID_BYTES:].hex(),
            }
        )
