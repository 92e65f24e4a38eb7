"""Memory of one agent: search, list, write, forget, and what choirctl needs besides."""

from collections.abc import Generator, Mapping
from typing import Literal

import httpx2
from pydantic import BaseModel

from choir_client import operations
from choir_client._sync.connection import CONNECT_TIMEOUT_S, Connection
from choir_client.operation import AnyBody, Operation, QueryParams, ResponseT
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

STREAM_READ_TIMEOUT_S = 60.0


class Memory:
    """The memory of one agent; every method raises NotFound if there is no such agent."""

    def __init__(self, connection: Connection, agent_id: str) -> None:
        self._connection = connection
        self._agent_id = agent_id

    def status(self) -> AgentMemory:
        """Return the numbers of documents and the queue."""
        return self._call(operations.SHOW_MEMORY)

    def search(
        self,
        query: str,
        *,
        store: Literal["knowledge", "session"] = "knowledge",
        limit: int = 10,
        **filters: str | float | bool | list[str],
    ) -> MemoryHits:
        """Return the best hits; `filters` are further fields of `MemoryQuery`, times as ISO 8601 texts.

        Raises InvalidRequest for a field that does not exist or does not fit.
        """
        fields: JsonObject = {"store": store, "query": query, "limit": limit}
        for name, value in filters.items():
            fields[name] = [*value] if isinstance(value, list) else value
        return self.search_by(fields)

    def search_by(self, fields: JsonObject) -> MemoryHits:
        """Return the hits of a search given as the fields of `MemoryQuery`. Raises InvalidRequest."""
        return self._call(operations.SEARCH, body=AnyBody.model_validate(fields))

    def receipt(self, receipt_id: str) -> SearchReceipt:
        """Return the receipt of a search. Raises NotFound."""
        return self._call(operations.SHOW_RECEIPT, {"receipt_id": receipt_id})

    def documents(self, params: QueryParams | None = None) -> DocumentPage:
        """Return a page of documents, newest first; `params` are those of the HTTP API.

        `cursor` is `next` of the previous page.
        """
        return self._call(operations.LIST_DOCUMENTS, params=params)

    def document(self, name: str) -> DocumentDetail:
        """Return one document by id or key. Raises NotFound."""
        return self._call(operations.SHOW_DOCUMENT, {"name": name})

    def write(self, document: PutDocument) -> MemoryWritten:
        """Write a document of knowledge. Raises Conflict if its version is not the expected one."""
        return self._call(operations.WRITE_DOCUMENT, body=document)

    def delete(self, name: str, expected_version: int | None = None) -> MemoryErased:
        """Erase a document and what only it supported. Raises NotFound, Conflict."""
        params = {} if expected_version is None else {"expected_version": str(expected_version)}
        return self._call(operations.DELETE_DOCUMENT, {"name": name}, params=params)

    def forget(self, selection: ForgetSelection) -> ForgetReport:
        """Preview a selection, or erase it if it has the digest of a preview.

        Raises NotFound, Conflict if it changed since the preview.
        """
        return self._call(operations.FORGET, body=selection)

    def reset(self, request: ResetRequest) -> ForgetReport:
        """Preview or carry out a reset of the agent's conversation. Raises Conflict."""
        return self._call(operations.RESET_CONVERSATION, body=request)

    def erase_session(self, session_id: str) -> SessionErased:
        """Erase the documents of a session. Raises NotFound."""
        return self._call(operations.ERASE_SESSION, {"session_id": session_id})

    def conversation(self) -> ConversationMemory:
        """Return how the agent's conversation uses memory."""
        return self._call(operations.SHOW_MODE)

    def set_mode(self, mode: str) -> ConversationMemory:
        """Switch the memory mode. Raises InvalidRequest, or Conflict while the agent works."""
        return self._call(operations.SET_MODE, body=SetMemoryMode(mode=mode))

    def set_recall(self, recall: RecallSetting) -> ConversationMemory:
        """Switch recall."""
        return self._call(operations.SET_RECALL, body=SetRecall(recall=recall))

    def audit(self, before: int | None, limit: int) -> AuditEntries:
        """Return up to `limit` audit log entries, newest first, those before the number `before`."""
        params = {"limit": str(limit), **({} if before is None else {"before": str(before)})}
        return self._call(operations.READ_AUDIT, params=params)

    def feedback(self, session: str | None, limit: int) -> FeedbackPage:
        """Return users' feedback on the agent's conduct, newest first; of one session or of all (None)."""
        params = {"limit": str(limit), **({} if session is None else {"session": session})}
        return self._call(operations.READ_FEEDBACK, params=params)

    def export(self) -> Generator[bytes]:
        """Yield the lines of an export as they arrive; the caller must check that the last one is there."""
        timeout = httpx2.Timeout(STREAM_READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        path = operations.EXPORT.url(self._names({}))
        rest = b""
        for piece in self._connection.download(path, timeout):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield line

    def import_records(self, piece: ImportRecords) -> MemoryImported:
        """Import a batch of records; repeating the call changes nothing."""
        return self._call(operations.IMPORT_RECORDS, body=piece)

    def _names(self, names: Mapping[str, str]) -> Mapping[str, str]:
        return {"agent_id": self._agent_id, **names}

    def _call(
        self,
        operation: Operation[ResponseT],
        names: Mapping[str, str] | None = None,
        *,
        body: BaseModel | None = None,
        params: QueryParams | None = None,
    ) -> ResponseT:
        return self._connection.call(operation, self._names(names or {}), body=body, params=params)
