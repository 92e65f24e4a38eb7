"""Send an uploaded file to the memory service, which reads its text. Control never parses a file."""

import contextlib
from collections.abc import AsyncIterator
from uuid import uuid4

from starlette.requests import ClientDisconnect

from choir_common.clients.memory import CollectionsClient
from choir_common.errors import ChoirError, InvalidRequest
from choir_common.http.middleware import LargeBodyRoute
from choir_common.i18n import _
from choir_common.wire.memory_collections import MAX_FILE_PART, FilePart, FileText

# The memory service limits the size of a file (CHOIR_FILE_MAX_MB); this is the largest value of its setting.
DOCUMENT_BODIES = LargeBodyRoute(
    "PUT", r"/v1/agents/[^/]+/collections/[^/]+/files", 1_000 * 1024 * 1024, 600.0
)


async def read_document_file(
    client: CollectionsClient, name: str, content: AsyncIterator[bytes]
) -> FileText:
    """Send a file in parts, and return its text.

    Raises InvalidRequest for a file that is empty or cannot be read, TooLarge, and Unavailable.
    """
    try:
        return await _send_parts(client, name, _in_parts(content))
    except ChoirError:
        # a browser that is still sending would see a broken connection instead of the answer
        with contextlib.suppress(ChoirError, ClientDisconnect):
            async for _ in content:
                pass
        raise


async def _send_parts(
    client: CollectionsClient, name: str, parts: AsyncIterator[tuple[bytes, bool]]
) -> FileText:
    upload_id, offset, answer = str(uuid4()), 0, FileText()
    async for content, is_last in parts:
        part = FilePart(
            upload_id=upload_id, name=name, offset=offset, content=content, is_last=is_last
        )
        answer = await client.read_file(part)
        offset += len(content)
    if not offset:
        raise InvalidRequest(_("{name} is empty.").format(name=name))
    return answer


async def _in_parts(content: AsyncIterator[bytes]) -> AsyncIterator[tuple[bytes, bool]]:
    """Yield the content in parts of the same size, each with whether it is the last one."""
    rest = bytearray()
    async for piece in content:
        rest += piece
        # more than one part, because the last one has to be marked
        while len(rest) > MAX_FILE_PART:
            yield bytes(rest[:MAX_FILE_PART]), False
            del rest[:MAX_FILE_PART]
    if rest:
        yield bytes(rest), True
