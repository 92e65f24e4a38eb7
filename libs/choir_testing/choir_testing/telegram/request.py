"""Arguments of one Bot API call: query, form, JSON or multipart, as Telegram accepts them.

`server` calls `read_arguments`; `methods` gets each argument from `Arguments`.
"""

import json
import re
from collections.abc import Container
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from pydantic import JsonValue, TypeAdapter
from starlette.requests import Request

from choir_common.wire.model import JsonObject
from choir_testing.telegram.faults import bad_request

_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


@dataclass(frozen=True, slots=True)
class Upload:
    """A file in a call."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call as text, and its files."""

    values: dict[str, str]
    uploads: dict[str, Upload] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """Return a text argument. Raises BotApiError 400 if it is missing."""
        if name not in self.values:
            raise bad_request(f'parameter "{name}" is required')
        return self.values[name]

    def optional(self, name: str) -> str | None:
        """Return a text argument, or None."""
        return self.values.get(name) or None

    def number(self, name: str, default: int | None = None) -> int:
        """Return an integer argument. Raises BotApiError 400 if it is missing or not a number."""
        if name not in self.values and default is not None:
            return default
        try:
            return int(float(self.text(name)))
        except ValueError as error:
            raise bad_request(f'parameter "{name}" must be a number') from error

    def flag(self, name: str) -> bool:
        """Return a boolean argument; missing means false."""
        return self.values.get(name, "").lower() == "true"

    def objects(self, name: str) -> list[JsonObject]:
        """Return an argument with a JSON list of objects; missing means empty."""
        found = self._json(name)
        return [o for o in found if isinstance(o, dict)] if isinstance(found, list) else []

    def mapping(self, name: str) -> JsonObject:
        """Return an argument with a JSON object; missing means empty."""
        found = self._json(name)
        return found if isinstance(found, dict) else {}

    def words(self, name: str) -> list[str]:
        """Return an argument with a JSON list of strings; missing means empty."""
        found = self._json(name)
        return [str(w) for w in found] if isinstance(found, list) else []

    def upload(self, name: str) -> Upload | None:
        """Return the file of an argument, sent under its own name or as `attach://part`."""
        part = self.values.get(name, "").removeprefix("attach://")
        return self.uploads.get(name) or self.uploads.get(part)

    def replied_to(self, there: Container[int]) -> int | None:
        """Return the id of the message this one replies to, if it is in `there`.

        Raises BotApiError 400 for another id, unless the caller allows sending without the reply.
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
    """Read a call's arguments from the query, form, JSON or multipart body."""
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
