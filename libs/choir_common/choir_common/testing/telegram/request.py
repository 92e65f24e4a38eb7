"""Read the arguments of one Bot API call: query, form, JSON or multipart, as Telegram takes them.

server.py calls `read_arguments`; methods.py asks the `Arguments` for what each method needs.
"""

import json
import re
from collections.abc import Container
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from pydantic import JsonValue, TypeAdapter
from starlette.requests import Request

from choir_common.testing.telegram.faults import bad_request
from choir_common.wire.json import JsonObject

_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that came with a call."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call as text, and the files beside them."""

    values: dict[str, str]
    uploads: dict[str, Upload] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """Give a text argument. Raises BotApiError 400 when it is missing."""
        if name not in self.values:
            raise bad_request(f'parameter "{name}" is required')
        return self.values[name]

    def optional(self, name: str) -> str | None:
        """Give a text argument, or None."""
        return self.values.get(name) or None

    def number(self, name: str, default: int | None = None) -> int:
        """Give an integer argument. Raises BotApiError 400 when it is missing or no integer."""
        if name not in self.values and default is not None:
            return default
        try:
            return int(float(self.text(name)))
        except ValueError as error:
            raise bad_request(f'parameter "{name}" must be a number') from error

    def flag(self, name: str) -> bool:
        """Give a boolean argument; absent is false."""
        return self.values.get(name, "").lower() == "true"

    def objects(self, name: str) -> list[JsonObject]:
        """Give an argument that holds a JSON list of objects; absent is empty."""
        found = self._json(name)
        return [o for o in found if isinstance(o, dict)] if isinstance(found, list) else []

    def mapping(self, name: str) -> JsonObject:
        """Give an argument that holds a JSON object; absent is empty."""
        found = self._json(name)
        return found if isinstance(found, dict) else {}

    def words(self, name: str) -> list[str]:
        """Give an argument that holds a JSON list of strings; absent is empty."""
        found = self._json(name)
        return [str(w) for w in found] if isinstance(found, list) else []

    def upload(self, name: str) -> Upload | None:
        """Give the file of an argument: sent under its own name, or as `attach://part`."""
        part = self.values.get(name, "").removeprefix("attach://")
        return self.uploads.get(name) or self.uploads.get(part)

    def replied_to(self, there: Container[int]) -> int | None:
        """Give the id of the message this one replies to, of those `there`.

        Raises BotApiError 400 for another, unless the caller is content without it.
        """
        asked = self.mapping("reply_parameters")
        found = asked.get("message_id")
        if not isinstance(found, int) or found in there:
            return found if isinstance(found, int) else None
        if asked.get("allow_sending_without_reply") is True:
            return None
        raise bad_request("message to be replied not found")

    def _json(self, name: str) -> JsonValue:
        try:
            return _JSON.validate_json(self.values.get(name) or "null")
        except ValueError as error:
            raise bad_request(f"can't parse {name} JSON object") from error


async def read_arguments(request: Request) -> Arguments:
    """Read a call's arguments from wherever the client put them."""
    values = dict(request.query_params)
    body = await request.body()
    kind = request.headers.get("content-type", "")
    uploads: dict[str, Upload] = {}
    if kind.startswith("application/json") and body:
        for name, value in json.loads(body).items():
            values[name] = value if isinstance(value, str) else json.dumps(value)
    elif kind.startswith("multipart/form-data"):
        fields, uploads = _read_multipart(kind, body)
        values.update(fields)
    else:
        values.update(parse_qsl(body.decode(), keep_blank_values=True))
    return Arguments(values, uploads)


def _read_multipart(kind: str, body: bytes) -> tuple[dict[str, str], dict[str, Upload]]:
    boundary = b"--" + kind.partition("boundary=")[2].strip('"').encode()
    fields: dict[str, str] = {}
    uploads: dict[str, Upload] = {}
    for part in body.split(boundary)[1:-1]:
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        content = content.removesuffix(b"\r\n")
        named = dict(re.findall(r'(\bname|\bfilename)="([^"]*)"', head.decode()))
        if "filename" in named:
            uploads[named["name"]] = Upload(named["filename"], content)
        else:
            fields[named["name"]] = content.decode()
    return fields, uploads
