"""`/v1/agents/{agent_id}/memory`: an agent's memory.

Forwards to the memory service, which audits each request as the operator's. Writes pass the redactor
first, as an agent's own writes do.
"""

from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from typing import Annotated

import orjson
import structlog
from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import StreamingResponse

from choir_common.clients.memory import (
    MemoryAdminClient,
    MemoryClient,
    SessionMemoryClient,
)
from choir_common.errors import ChoirError, InvalidRequest
from choir_common.http.body import openapi_body, parse_body, parse_request_body
from choir_common.http.routers import ServiceRouter
from choir_common.i18n import _
from choir_common.ids import NAME_PATTERN, new_id
from choir_common.wire.memory_modes import ConversationMemory, SetMemoryMode, SetRecall
from choir_common.wire.memory_operator import (
    AgentMemory,
    AuditEntries,
    AuditQuery,
    DeleteDocument,
    DocumentDetail,
    DocumentPage,
    ExportedPage,
    ExportMemory,
    FeedbackPage,
    ImportPart,
    ImportRecords,
    ListFeedback,
    ListMemory,
    MemoryErased,
    MemoryImported,
    PutDocument,
    ReadMemoryState,
    ShowDocument,
)
from choir_common.wire.memory_records import ExportFooter, ExportHeader
from choir_common.wire.memory_search import (
    MAX_DAYS_AGO,
    MemoryHits,
    MemoryQuery,
    MemoryUpsert,
    MemoryWritten,
    ReadSearchReceipt,
    SearchReceipt,
)
from choir_common.wire.memory_sessions import EraseSession, SessionErased
from choir_common.wire.model import JsonObject, WireModel
from choir_control.agents.host_tools.memory import MemoryTools
from choir_control.agents.host_tools.request import parse_tool_input
from choir_control.agents.sessions.memory_modes import MemoryModeService
from choir_control.api.operator.authentication import ConversationAccess, until_signed_out
from choir_control.configuration.current import ConfigService

log = structlog.get_logger("choir.operator.memory")

NDJSON = "application/x-ndjson"
MAX_VERSION = 2**31 - 1

AgentPath = Annotated[str, Path(pattern=NAME_PATTERN)]
Name = Annotated[str, Path(min_length=1, max_length=200)]
QueryText = Annotated[str | None, Query(min_length=1, max_length=200)]
QueryTexts = Annotated[Sequence[str], Query(max_length=20)]
QueryDays = Annotated[int | None, Query(ge=0, le=MAX_DAYS_AGO)]


class MemorySpaces:
    """The memory spaces of the configured agents, and the masking of secrets in what operators write."""

    def __init__(self, configuration: ConfigService, tools: MemoryTools) -> None:
        self._configuration = configuration
        self._tools = tools

    async def ensure(self, agent_id: str) -> str:
        """Return an agent's id; create the memory space first if the agent is configured.

        An agent that is no longer configured may still have a memory; the memory service checks that.
        """
        if agent_id in self._configuration.current.config.agents:
            await self._tools.ensure_space(agent_id)
        return agent_id

    def require_configured(self, agent_id: str) -> None:
        """Raise NotFound for an agent that is not configured."""
        self._configuration.current.agent(agent_id)

    def redact(self, document: JsonObject) -> JsonObject:
        """Return a document with known secrets masked."""
        return self._tools.redact(document)


def memory_routes(
    *,
    spaces: MemorySpaces,
    search_client: MemoryClient,
    admin_client: MemoryAdminClient,
    session_client: SessionMemoryClient,
    modes: MemoryModeService,
) -> APIRouter:
    """Return the router of an agent's memory."""
    router = ServiceRouter(prefix="/agents/{agent_id}/memory", tags=["memory"])
    router.include_router(_mode_routes(modes))
    router.include_router(_document_routes(spaces, admin_client))
    router.include_router(_write_routes(spaces, admin_client))
    router.include_router(_export_import_routes(spaces, admin_client))
    router.include_router(_search_routes(spaces, search_client, admin_client))
    router.include_router(_session_routes(spaces, session_client))
    router.include_router(_audit_routes(spaces, admin_client))

    @router.get("")
    async def read_state(agent_id: AgentPath) -> AgentMemory:
        """Show how much an agent remembers, and how much waits for embedding."""
        return await admin_client.state(ReadMemoryState(agent_id=await spaces.ensure(agent_id)))

    return router


def _session_routes(spaces: MemorySpaces, session_client: SessionMemoryClient) -> APIRouter:
    router = ServiceRouter()

    @router.delete("/sessions/{session_id}")
    async def erase_session(agent_id: AgentPath, session_id: Name) -> SessionErased:
        """Erase everything that memory stores of a session, permanently; its log stays."""
        erasure = EraseSession(agent_id=await spaces.ensure(agent_id), session_id=session_id)
        return await session_client.erase(erasure)

    return router


def _audit_routes(spaces: MemorySpaces, admin_client: MemoryAdminClient) -> APIRouter:
    router = ServiceRouter()

    @router.get("/audit")
    async def read_audit(
        agent_id: AgentPath,
        before: Annotated[int | None, Query(ge=1, le=2**62)] = None,
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
    ) -> AuditEntries:
        """Show who did what to an agent's memory, newest first; documents by id only."""
        return await admin_client.audit(AuditQuery(agent_id=agent_id, before=before, limit=limit))

    @router.get("/feedback")
    async def read_feedback(
        agent_id: AgentPath,
        session: QueryText = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> FeedbackPage:
        """Show what users said about the agent's conduct in its sessions, newest first."""
        await spaces.ensure(agent_id)
        request = ListFeedback(agent_id=agent_id, session_id=session, limit=limit)
        return await admin_client.feedback(request)

    return router


def _search_routes(
    spaces: MemorySpaces, search_client: MemoryClient, admin_client: MemoryAdminClient
) -> APIRouter:
    router = ServiceRouter()

    @router.post("/search", openapi_extra=openapi_body(MemoryQuery))
    async def search(agent_id: AgentPath, request: Request) -> MemoryHits:
        """Search an agent's memory in the same way as the agent does."""
        document = _object(await request.body())
        query = parse_tool_input(MemoryQuery, spaces.redact(document), agent_id=agent_id)
        if query.target_agent is not None:
            raise InvalidRequest(_("The path names the agent to search: omit target_agent."))
        await spaces.ensure(agent_id)
        return await admin_client.search(query)

    @router.get("/receipts/{receipt_id}")
    async def read_receipt(
        agent_id: AgentPath, receipt_id: Annotated[str, Path(min_length=1, max_length=64)]
    ) -> SearchReceipt:
        """Show how a search ran: arms, figures and ids."""
        return await search_client.receipt(
            ReadSearchReceipt(agent_id=agent_id, receipt_id=receipt_id)
        )

    return router


def _mode_routes(modes: MemoryModeService) -> APIRouter:
    router = ServiceRouter()

    @router.get("/mode")
    async def show_memory_mode(agent_id: AgentPath) -> ConversationMemory:
        """Show whether an agent's conversation is remembered, and whether memory is read."""
        return await modes.show(await modes.find_dm(agent_id), agent_id)

    @router.put("/mode", openapi_extra=openapi_body(SetMemoryMode))
    async def set_memory_mode(agent_id: AgentPath, request: Request) -> ConversationMemory:
        """Switch the memory mode of an agent's conversation; a running agent starts a new session."""
        body = await parse_request_body(request, SetMemoryMode)
        memory = await modes.set_mode(await modes.find_dm(agent_id), body.mode, agent_id)
        await modes.notify(memory)
        return memory

    @router.put("/recall", openapi_extra=openapi_body(SetRecall))
    async def set_recall(agent_id: AgentPath, request: Request) -> ConversationMemory:
        """Switch recall for an agent's conversation."""
        body = await parse_request_body(request, SetRecall)
        memory = await modes.set_recall(await modes.find_dm(agent_id), body.recall, agent_id)
        await modes.notify(memory)
        return memory

    return router


def _list_filters(
    *,
    store: Annotated[str, Query(max_length=200)] = "knowledge",
    kind: QueryTexts = (),
    session_id: QueryText = None,
    key_prefix: QueryText = None,
    speaker: QueryTexts = (),
    grain: QueryText = None,
    since: QueryText = None,
    until: QueryText = None,
    min_days_ago: QueryDays = None,
    max_days_ago: QueryDays = None,
    collection: QueryText = None,
    min_trust: Annotated[int, Query(ge=0, le=100)] = 0,
    tags: Annotated[str, Query(max_length=4_096)] = "{}",
    scope: QueryTexts = (),
    hidden: bool = False,
    cursor: QueryText = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> JsonObject:
    """Return the fields of ListMemory from the parameters of the URL; `tags` is a JSON object."""
    return {
        "store": store,
        "kinds": [*kind],
        "session_id": session_id,
        "key_prefix": key_prefix,
        "speakers": [*speaker],
        "grain": grain,
        "since": since,
        "until": until,
        "min_days_ago": min_days_ago,
        "max_days_ago": max_days_ago,
        "collection": collection,
        "min_trust": min_trust,
        "tags": _object(tags.encode(), "`tags`"),
        "scopes": [*scope],
        "hidden": hidden,
        "cursor": cursor,
        "limit": limit,
    }


def _document_routes(spaces: MemorySpaces, admin_client: MemoryAdminClient) -> APIRouter:
    router = ServiceRouter(prefix="/documents")

    @router.get("")
    async def list_documents(
        agent_id: AgentPath, filters: Annotated[JsonObject, Depends(_list_filters)]
    ) -> DocumentPage:
        """List documents, newest first."""
        await spaces.ensure(agent_id)
        return await admin_client.list(parse_tool_input(ListMemory, filters, agent_id=agent_id))

    @router.get("/{name:path}")
    async def show_document(agent_id: AgentPath, name: Name) -> DocumentDetail:
        """Show one complete document, by id or key."""
        return await admin_client.show(
            ShowDocument(agent_id=await spaces.ensure(agent_id), name=name)
        )

    @router.delete("/{name:path}")
    async def delete_document(
        agent_id: AgentPath,
        name: Name,
        expected_version: Annotated[int | None, Query(ge=1, le=MAX_VERSION)] = None,
    ) -> MemoryErased:
        """Erase a document and everything that only it supported, permanently, by id or key."""
        await spaces.ensure(agent_id)
        deletion = DeleteDocument(agent_id=agent_id, name=name, expected_version=expected_version)
        return await admin_client.delete(deletion)

    return router


def _write_routes(spaces: MemorySpaces, admin_client: MemoryAdminClient) -> APIRouter:
    router = ServiceRouter()

    @router.post("/documents", openapi_extra=openapi_body(PutDocument))
    async def put_document(agent_id: AgentPath, request: Request) -> MemoryWritten:
        """Store knowledge: under a key, replacing a document, or as a new one.

        Without a text only the status and validity of an existing document change.
        """
        cleaned = spaces.redact(_object(await request.body()))
        document = parse_body(orjson.dumps(cleaned), PutDocument)
        is_update = document.key is not None or document.document_id is not None
        spaces.require_configured(agent_id)
        write = MemoryUpsert(
            agent_id=await spaces.ensure(agent_id),
            # prefixed, so that it can never equal the call id of an agent
            call_id=f"operator:{document.call_id or new_id('put')}",
            operation="update" if is_update else "insert",
            text=document.text,
            key=document.key,
            document_id=document.document_id,
            metadata=document.metadata,
            expected_version=document.expected_version,
            status=document.status,
            valid_from=document.valid_from,
            valid_to=document.valid_to,
            supersedes=document.supersedes,
        )
        return await admin_client.put(write)

    return router


def _export_import_routes(spaces: MemorySpaces, admin_client: MemoryAdminClient) -> APIRouter:
    router = ServiceRouter()

    @router.get("/export", response_class=StreamingResponse)
    async def export(agent_id: AgentPath, request: Request) -> StreamingResponse:
        """Stream an agent's complete memory as JSON lines; the last line confirms that it is complete."""
        access: ConversationAccess = request.state.access
        access.admit_transfer()  # refused before the memory service reads anything
        export_request = ExportMemory(agent_id=await spaces.ensure(agent_id))
        # fetch the first page before the response starts, so that an error still has its status code
        first = await admin_client.export(export_request)
        lines = until_signed_out(request, _lines(admin_client, agent_id, first), is_file=True)
        return StreamingResponse(lines, media_type=NDJSON)

    @router.post("/import", openapi_extra=openapi_body(ImportRecords))
    async def import_records(agent_id: AgentPath, request: Request) -> MemoryImported:
        """Store a part of an export, all or nothing; records that already exist are left unchanged."""
        cleaned = spaces.redact(_object(await request.body()))
        piece = parse_body(orjson.dumps(cleaned), ImportRecords)
        spaces.require_configured(agent_id)
        part = ImportPart(agent_id=await spaces.ensure(agent_id), piece=piece)
        return await admin_client.bring_in(part)

    return router


async def _lines(
    memory: MemoryAdminClient, agent_id: str, page: ExportedPage
) -> AsyncGenerator[bytes, None]:
    yield _line(ExportHeader(agent_id=agent_id, exported_at=datetime.now(UTC)))
    records = 0
    while True:
        for record in page.records:
            yield _line(record)
        records += len(page.records)
        if page.next is None:
            yield _line(ExportFooter(records=records))
            return
        try:
            page = await memory.export(ExportMemory(agent_id=agent_id, cursor=page.next))
        except ChoirError as error:
            # The response has started: without its last line the reader knows that it is incomplete.
            log.warning(
                "export interrupted", agent_id=agent_id, records=records, error=error.message
            )
            return


def _line(record: WireModel) -> bytes:
    return f"{record.model_dump_json()}\n".encode()


def _object(body: bytes, what: str = "The body") -> JsonObject:
    try:
        document = orjson.loads(body or b"{}")
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(
            _("{what} is not JSON: {error}.").format(what=what, error=error)
        ) from None
    if not isinstance(document, dict):
        raise InvalidRequest(_("{what} must be a JSON object.").format(what=what))
    return document
