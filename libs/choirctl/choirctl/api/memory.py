"""Typed client for `/v1/agents/{agent}/memory`, on top of `control`. Used by the `memory` commands."""

from collections.abc import AsyncIterator, Mapping
from urllib.parse import quote

import httpx2
from pydantic import BaseModel, TypeAdapter

from choir_common.wire.memory_forget import ForgetReport, ForgetSelection, ResetRequest
from choir_common.wire.memory_modes import (
    ConversationMemory,
    RecallSetting,
    SetMemoryMode,
    SetRecall,
)
from choir_common.wire.memory_operator import (
    AgentMemory,
    AuditEntries,
    DocumentDetail,
    DocumentPage,
    FeedbackPage,
    ImportRecords,
    MemoryErased,
    MemoryImported,
    PutDocument,
)
from choir_common.wire.memory_search import MemoryHits, MemoryWritten, SearchReceipt
from choir_common.wire.memory_sessions import SessionErased
from choir_common.wire.model import JsonObject
from choirctl.api.control import ControlClient, convert_transport_errors, parse_response
from choirctl.api.target import Target

ERASE_TIMEOUT_S = 90.0
SWITCH_TIMEOUT_S = 120.0  # the agent writes a summary and starts again
FORGET_TIMEOUT_S = 480.0
"""Memory is erased, and a running agent may take minutes to stop and start."""
STREAM_READ_TIMEOUT_S = 60.0


class _AnyBody(BaseModel):
    """A request body with arbitrary fields, which the server validates."""

    model_config = {"extra": "allow"}


class MemoryClient:
    """Client for one agent's memory, through control's operator API."""

    def __init__(self, api: ControlClient, place: Target, agent_id: str) -> None:
        self._api = api
        self._place = place
        self._path = f"/v1/agents/{quote(agent_id, safe='')}/memory"

    async def status(self) -> AgentMemory:
        """Return the document counts and queue of the memory. Raises NotFound if there is no such memory."""
        return parse_response(await self._api.send("GET", self._path), AgentMemory)

    async def conversation(self) -> ConversationMemory:
        """Return how the agent's conversation uses memory. Raises NotFound."""
        return parse_response(await self._api.send("GET", f"{self._path}/mode"), ConversationMemory)

    async def set_mode(self, mode: str) -> ConversationMemory:
        """Switch the memory mode. Raises InvalidRequest, or Conflict while the agent works."""
        answer = await self._api.send(
            "PUT", f"{self._path}/mode", body=SetMemoryMode(mode=mode), timeout_s=SWITCH_TIMEOUT_S
        )
        return parse_response(answer, ConversationMemory)

    async def set_recall(self, recall: RecallSetting) -> ConversationMemory:
        """Switch recall."""
        answer = await self._api.send("PUT", f"{self._path}/recall", body=SetRecall(recall=recall))
        return parse_response(answer, ConversationMemory)

    async def documents(self, params: Mapping[str, str | list[str]]) -> DocumentPage:
        """Return a page of documents."""
        answer = await self._api.send("GET", f"{self._path}/documents", params=params)
        return parse_response(answer, DocumentPage)

    async def document(self, name: str) -> DocumentDetail:
        """Return one document by id or key. Raises NotFound."""
        return parse_response(await self._api.send("GET", self._document(name)), DocumentDetail)

    async def search(self, query: JsonObject) -> MemoryHits:
        """Return the hits of a search. Raises InvalidRequest for an invalid query."""
        body = _AnyBody.model_validate(query)
        return parse_response(
            await self._api.send("POST", f"{self._path}/search", body=body), MemoryHits
        )

    async def receipt(self, receipt_id: str) -> SearchReceipt:
        """Return the receipt of a search. Raises NotFound."""
        path = f"{self._path}/receipts/{quote(receipt_id, safe='')}"
        return parse_response(await self._api.send("GET", path), SearchReceipt)

    async def write(self, document: PutDocument) -> MemoryWritten:
        """Write a document of knowledge. Raises Conflict if its version is not the expected one."""
        answer = await self._api.send("POST", f"{self._path}/documents", body=document)
        return parse_response(answer, MemoryWritten)

    async def delete(self, name: str, expected_version: int | None) -> MemoryErased:
        """Erase a document. Raises NotFound, Conflict."""
        params = {} if expected_version is None else {"expected_version": str(expected_version)}
        answer = await self._api.send(
            "DELETE", self._document(name), params=params, timeout_s=ERASE_TIMEOUT_S
        )
        return parse_response(answer, MemoryErased)

    async def erase_session(self, session_id: str) -> SessionErased:
        """Erase the documents of a session. Raises NotFound."""
        path = f"{self._path}/sessions/{quote(session_id, safe='')}"
        return parse_response(
            await self._api.send("DELETE", path, timeout_s=ERASE_TIMEOUT_S), SessionErased
        )

    async def forget(self, selection: ForgetSelection) -> ForgetReport:
        """Preview or erase a selection. Raises NotFound, Conflict if it changed since the preview."""
        answer = await self._api.send(
            "POST", f"{self._path}/forget", body=selection, timeout_s=FORGET_TIMEOUT_S
        )
        return parse_response(answer, ForgetReport)

    async def reset(self, request: ResetRequest) -> ForgetReport:
        """Preview or carry out a reset of the agent's conversation. Raises Conflict."""
        path = f"{self._path.removesuffix('/memory')}/reset"
        answer = await self._api.send("POST", path, body=request, timeout_s=FORGET_TIMEOUT_S)
        return parse_response(answer, ForgetReport)

    async def audit(self, before: int | None, limit: int) -> AuditEntries:
        """Return up to `limit` audit log entries, newest first, those before the number `before`."""
        params = {"limit": str(limit), **({} if before is None else {"before": str(before)})}
        answer = await self._api.send("GET", f"{self._path}/audit", params=params)
        return parse_response(answer, AuditEntries)

    async def feedback(self, session: str | None, limit: int) -> FeedbackPage:
        """Return users' feedback on the agent's conduct, newest first; of one session or of all (None)."""
        params = {"limit": str(limit), **({} if session is None else {"session": session})}
        answer = await self._api.send("GET", f"{self._path}/feedback", params=params)
        return parse_response(answer, FeedbackPage)

    async def export(self) -> AsyncIterator[bytes]:
        """Yield the lines of an export as they arrive; the caller must check that the last one is there."""
        timeout = httpx2.Timeout(STREAM_READ_TIMEOUT_S, connect=5.0)
        with convert_transport_errors(self._place):
            async with self._api.client.stream(
                "GET", f"{self._path}/export", timeout=timeout
            ) as answer:
                if answer.is_error:
                    self._api.raise_for_status(answer.status_code, await answer.aread())
                rest = b""
                async for piece in answer.aiter_bytes():
                    *lines, rest = (rest + piece).split(b"\n")
                    for line in lines:
                        yield line

    async def import_records(self, piece: ImportRecords) -> MemoryImported:
        """Import a batch of records; repeating the call changes nothing."""
        answer = await self._api.send(
            "POST", f"{self._path}/import", body=piece, timeout_s=ERASE_TIMEOUT_S
        )
        return parse_response(answer, MemoryImported)

    def _document(self, name: str) -> str:
        return f"{self._path}/documents/{quote(name, safe='')}"


JSON_OBJECT: TypeAdapter[JsonObject] = TypeAdapter(JsonObject)
