"""Pictures and PDFs in prompts: references to files, which become data URIs just before a request. Pure.

A prompt is rendered once and cached, and its size is measured in bytes; the content of pictures would fill
the cache and distort the size.
"""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote, unquote

import orjson

from choir_common.wire.attachments import PictureRef
from choir_common.wire.model import JsonObject

_PART = re.compile(
    rb'\{"type":"image_url","image_url":\{"url":"choir-picture:([^"#]*)#([^"]*)"\}\}'
)
# The quotation marks of a text are escaped in JSON, so no text of a message matches.


def picture_message(
    head: JsonObject,
    text: str,
    pictures: Sequence[PictureRef],
    files: Sequence[JsonObject] = (),
) -> bytes:
    """Render a message with a text and references to pictures and other files."""
    parts = [{"type": "text", "text": text}, *map(_reference, pictures), *files]
    return orjson.dumps({**head, "content": parts})


_PDF_PART = re.compile(
    rb'\{"type":"file","file":\{"filename":("(?:[^"\\]|\\.)*"),"file_data":"choir-pdf:([^"#]*)#(\d+)"\}\}'
)


def pdf_part(name: str, path: str, pages: int) -> JsonObject:
    """Return a reference to a PDF of the workspace as a part of a message."""
    return {
        "type": "file",
        "file": {"filename": name, "file_data": f"choir-pdf:{quote(path)}#{pages}"},
    }


def find_pdfs(messages: Sequence[bytes]) -> list[str]:
    """Return the paths of the PDFs that messages refer to, in their order."""
    return [
        unquote(match[2].decode()) for message in messages for match in _PDF_PART.finditer(message)
    ]


def count_pages(messages: Sequence[bytes]) -> int:
    """Return how many pages the PDFs that messages refer to have."""
    return sum(
        int(match[3])
        for message in messages
        if b'"choir-pdf:' in message
        for match in _PDF_PART.finditer(message)
    )


def fill_pdfs(messages: Sequence[bytes], content: Mapping[str, str | bytes]) -> tuple[bytes, ...]:
    """Return the messages with a data URI (bytes) for each PDF, or a remark (text) in its place."""

    def fill(match: re.Match[bytes]) -> bytes:
        value = content[unquote(match[2].decode())]
        if isinstance(value, str):
            return orjson.dumps({"type": "text", "text": value})
        name = match[1]
        return b'{"type":"file","file":{"filename":' + name + b',"file_data":"' + value + b'"}}'

    return tuple(
        _PDF_PART.sub(fill, message) if b'"choir-pdf:' in message else message
        for message in messages
    )


def find_pictures(messages: Sequence[bytes]) -> list[PictureRef]:
    """Return the pictures that messages refer to, in their order."""
    return [_parse(match) for message in messages for match in _PART.finditer(message)]


def count_pictures(messages: Sequence[bytes]) -> int:
    """Return how many pictures messages refer to."""
    return sum(message.count(b'{"url":"choir-picture:') for message in messages)


def fill_pictures(
    messages: Sequence[bytes], content: Mapping[PictureRef, str | bytes]
) -> tuple[bytes, ...]:
    """Return the messages with a data URI (bytes) for each reference, or a remark (text) in its place."""

    def fill(match: re.Match[bytes]) -> bytes:
        value = content[_parse(match)]
        if isinstance(value, str):
            return orjson.dumps({"type": "text", "text": value})
        return b'{"type":"image_url","image_url":{"url":"' + value + b'"}}'

    return tuple(
        _PART.sub(fill, message) if b'"choir-picture:' in message else message
        for message in messages
    )


def _reference(picture: PictureRef) -> JsonObject:
    url = f"choir-picture:{quote(picture.path)}#{quote(picture.hash)}"
    return {"type": "image_url", "image_url": {"url": url}}


def _parse(match: re.Match[bytes]) -> PictureRef:
    path, content_hash = (unquote(part.decode()) for part in match.groups())
    return PictureRef(path=path, hash=content_hash)
