"""Preview a selection of an agent's memory, and erase exactly what the preview showed.

Preview and erasure select in the same way. The digest of the selected ids and versions connects them: if
memory changed in between, nothing is erased and the caller shows a new preview.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import assert_never
from uuid import UUID

from choir_common.clock import Clock
from choir_common.errors import Conflict, InvalidRequest, NotFound
from choir_common.i18n import _
from choir_common.postgres.pool import Connection, Database
from choir_common.wire.memory_forget import (
    MAX_SHOWN,
    ForgetMemory,
    ForgetResult,
    ForgetSelection,
    ForgottenDocument,
)
from choir_common.wire.model import JsonObject
from choir_memory.admin.forget_store import ForgetStore, SelectedDocument, list_written
from choir_memory.admin.read import parse_document_id
from choir_memory.admin.read_store import MemoryReadStore
from choir_memory.audit.store import AuditRecord, write_record
from choir_memory.documents.erase_store import (
    delete_documents,
    erase_references,
    find_derived,
    find_superseded,
)
from choir_memory.schema.store import SpaceRegistry, resume_service_role, take_agent_role
from choir_memory.sessions.forgotten_period_store import (
    ForgottenPeriod,
    add_forgotten_period,
    lock_for_erasure,
)
from choir_memory.sessions.store import SessionStore
from choir_memory.text.tokens import query_terms


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a selection erases and changes."""

    sources: frozenset[UUID] = frozenset()
    """The selected documents; with scope `learned` they stay."""
    erased: frozenset[UUID] = frozenset()
    derived: frozenset[UUID] = frozenset()
    """The part of `erased` that was derived from `sources`."""
    supported: frozenset[UUID] = frozenset()
    restored: frozenset[UUID] = frozenset()
    documents: Sequence[SelectedDocument] = field(default_factory=tuple)
    sessions: Sequence[str] = ()
    """Sessions whose own summaries may repeat what is erased."""

    @property
    def digest(self) -> str:
        """Return a digest of the documents to erase and their versions."""
        lines = sorted(f"{document.document_id} {document.version}" for document in self.documents)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class MemoryForgetter:
    """Erasure of selections: `choirctl memory forget` and `undo`, `/forget`, `/reset`."""

    database: Database
    spaces: SpaceRegistry
    clock: Clock

    async def forget(self, request: ForgetMemory) -> ForgetResult:
        """Return a preview, or erase what the preview with `expected_digest` showed.

        Raises InvalidRequest for a selection without a condition, NotFound for an unknown document, and
        Conflict when the selection changed since the preview.
        """
        selection, agent_id = request.selection, request.agent_id
        _validate(selection)
        await self.spaces.require(agent_id)
        async with self.database.transaction() as connection:
            if selection.expected_digest is not None:
                await lock_for_erasure(connection, agent_id)
            # the audit log is readable under the service's role only
            own_notes = await list_written(connection, agent_id, selection)
            await take_agent_role(connection, agent_id)
            plan = await _plan(connection, agent_id, selection, own_notes)
            if selection.expected_digest is not None:
                if selection.expected_digest != plan.digest:
                    raise Conflict(
                        _(
                            "The memory of {agent_id} has changed since the preview. Nothing was erased; "
                            "look at a new preview."
                        ).format(agent_id=agent_id)
                    )
                await self._erase(connection, request, plan)
        return _result(plan, erased=selection.expected_digest is not None)

    async def _erase(self, connection: Connection, request: ForgetMemory, plan: _Plan) -> None:
        agent_id, selection = request.agent_id, request.selection
        store = ForgetStore(connection, agent_id)
        if selection.scope == "learned":
            await store.stop_learning(plan.sources)
        await delete_documents(connection, agent_id, plan.erased)
        await resume_service_role(connection)
        await erase_references(connection, agent_id, [*plan.erased])
        await self._stop_storing(connection, request)
        await self._drop_summaries(connection, agent_id, plan.sessions)
        detail: JsonObject = {"scope": selection.scope, "restored": len(plan.restored)}
        await write_record(
            connection,
            AuditRecord(agent_id, request.actor, "forgotten", sorted(plan.erased), detail),
        )

    async def _drop_summaries(
        self, connection: Connection, agent_id: str, session_ids: Sequence[str]
    ) -> None:
        """Drop the agent's own summaries of whole sessions, also of those that have not ended yet."""
        sessions = SessionStore(connection, agent_id)
        for session_id in session_ids:
            state = await sessions.get(session_id)
            if state is None or state.erased:
                continue
            await sessions.store_summary(session_id, "", ())
            if state.ended_at is None:
                period = ForgottenPeriod(None, self.clock.now(), session_id, "no_summary")
                await add_forgotten_period(connection, agent_id, period)

    async def _stop_storing(self, connection: Connection, request: ForgetMemory) -> None:
        """Make sure that events which control has not sent yet are not stored later, or not learned from."""
        agent_id, selection, now = request.agent_id, request.selection, self.clock.now()
        is_undated = selection.since is None and selection.until is None
        if selection.words is not None or selection.document is not None:
            return
        until = selection.until or now
        if selection.scope == "learned":
            period = ForgottenPeriod(selection.since, until, selection.session_id, "unlearned")
            await add_forgotten_period(connection, agent_id, period)
        elif selection.session_id is not None and is_undated:
            sessions = SessionStore(connection, agent_id)
            await sessions.get_or_create(selection.session_id, now)
            await sessions.mark_erased(selection.session_id)
        else:
            period = ForgottenPeriod(selection.since, until, selection.session_id)
            await add_forgotten_period(connection, agent_id, period)
            if request.stopping is not None:
                rest = ForgottenPeriod(selection.since, None, request.stopping)
                await add_forgotten_period(connection, agent_id, rest)


def _validate(selection: ForgetSelection) -> None:
    conditions = (selection.words, selection.session_id, selection.since, selection.until)
    if selection.document is not None and any(condition is not None for condition in conditions):
        raise InvalidRequest(_("Name either a document, or words, a session and a period."))
    if selection.document is None and all(condition is None for condition in conditions):
        raise InvalidRequest(_("Name what to erase: words, a document, a session or a period."))
    if selection.words is not None and not query_terms(selection.words):
        raise InvalidRequest(
            _("{words!r} contains no word that can be searched.").format(words=selection.words[:60])
        )
    if selection.since and selection.until and selection.since >= selection.until:
        raise InvalidRequest(_("The period is empty: it ends before it begins."))
    if selection.scope == "said" and selection.session_id is None:
        raise InvalidRequest(_("Only a session can be erased without what was learned from it."))


async def _plan(
    connection: Connection,
    agent_id: str,
    selection: ForgetSelection,
    own_notes: Collection[UUID],
) -> _Plan:
    store = ForgetStore(connection, agent_id)
    sources = await _sources(connection, agent_id, selection)
    if selection.expected_digest is not None:
        await store.lock(sources)
    learned: set[UUID] = set()
    if selection.words is None and selection.document is None:
        learned = await store.list_notes(own_notes)
        learned |= await store.list_learned_without_source(selection)
    match selection.scope:
        case "everything":
            sources |= learned
            derived = await find_derived(connection, agent_id, sources)
            erased = sources | derived
        case "learned":
            derived = learned | await find_derived(connection, agent_id, sources | learned)
            erased = derived - sources
        case "said":
            held_facts = await store.list_held(sources)
            derived = await store.list_repeating(sources) | held_facts
            derived |= await find_derived(connection, agent_id, held_facts)
            erased = sources | derived
        case _:
            assert_never(selection.scope)
    supported = await store.list_losing_a_source(sources, erased)
    return _Plan(
        sources=frozenset(sources),
        erased=frozenset(erased),
        derived=frozenset(derived),
        supported=frozenset(supported),
        restored=frozenset(await find_superseded(connection, agent_id, erased)),
        documents=await store.show(erased),
        sessions=await store.list_sessions(sources),
    )


async def _sources(connection: Connection, agent_id: str, selection: ForgetSelection) -> set[UUID]:
    store = ForgetStore(connection, agent_id)
    if selection.document is not None:
        name = selection.document
        which = await MemoryReadStore(connection, agent_id).find(parse_document_id(name), name)
        if which is None:
            raise NotFound(
                _("There is no document {name!r} in the memory of {agent_id}.").format(
                    name=name, agent_id=agent_id
                )
            )
        return {which[1]}
    sources = await store.list_units(selection)
    if selection.words is not None and selection.session_id is None:
        sources |= await store.list_knowledge(selection)
    return sources


def _result(plan: _Plan, *, erased: bool) -> ForgetResult:
    return ForgetResult(
        erased=erased,
        digest=plan.digest,
        documents=tuple(
            ForgottenDocument(
                document_id=str(document.document_id),
                store=document.store,
                kind=document.kind,
                key=document.key,
                session_id=document.session_id,
                at=document.at,
                text=document.text,
                derived=document.document_id in plan.derived,
            )
            for document in plan.documents[:MAX_SHOWN]
        ),
        counts=dict(sorted(Counter(document.kind for document in plan.documents).items())),
        total=len(plan.documents),
        supported=len(plan.supported),
        restored=len(plan.restored),
        sessions=tuple(plan.sessions),
    )
