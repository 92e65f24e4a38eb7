"""Messages of a user at the console: from the request to what control stores.

Control reads the requests, and the gateway those with files, which are in its spool.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from pydantic import ValidationError

from choir_common.errors import InvalidRequest
from choir_common.http.response_parser import LANGUAGE_HEADER
from choir_common.i18n import MAX_TAG, _
from choir_common.wire.attachments import Attachment
from choir_common.wire.console import MAX_KEY, ConsoleMessageRequest
from choir_common.wire.messages import InboundMessage, QuotedMessage
from choir_common.wire.model import WireModel
from choir_common.wire.validation_messages import error_message

ConsoleRequest = TypeVar("ConsoleRequest", bound=WireModel)

# An edit refers to the key of the message that it corrects, which cannot be longer than this.
MAX_MESSAGE_ID = 64


@dataclass(frozen=True, slots=True)
class ConsoleMessage:
    """A validated message of a user at the console."""

    key: str
    text: str
    files: Sequence[str] = ()
    edits: str | None = None
    reply_to: QuotedMessage | None = None
    language: str = ""
    """As in `InboundMessage`: the language of the client, if it says one."""

    def to_inbound(
        self, gateway: str, dm: str, attachments: Sequence[Attachment] = ()
    ) -> InboundMessage:
        """Return the message as control stores it, with the descriptions of its files."""
        return InboundMessage(
            gateway=gateway,
            dm=dm,
            # Clients choose the keys, so those of different DMs must not collide.
            update_id=f"{dm}:{self.key}",
            text=self.text,
            sent_at=datetime.now(UTC),
            attachments=tuple(attachments),
            message_id=self.key if len(self.key) <= MAX_MESSAGE_ID else None,
            edits=self.edits,
            reply_to=self.reply_to,
            language=self.language,
        )


def read_console_message(body: bytes, headers: Mapping[str, str]) -> ConsoleMessage:
    """Return the message in a request; raises InvalidRequest."""
    request = read_console_request(ConsoleMessageRequest, body, '{"text": "hello"}')
    key = request.idempotency_key or _read_key(headers) or os.urandom(12).hex()
    language = headers.get(LANGUAGE_HEADER, "")[:MAX_TAG]
    return ConsoleMessage(
        key, request.text, request.files, request.edits, request.reply_to, language
    )


def read_console_request(model: type[ConsoleRequest], body: bytes, example: str) -> ConsoleRequest:
    """Return the body as `model`; raises InvalidRequest with the first field that does not fit."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        path = ".".join(map(str, fault["loc"])) or "body"
        raise InvalidRequest(
            _("{path}: {error}. Send JSON such as {example}.").format(
                path=path, error=error_message(fault), example=example
            )
        ) from None


def _read_key(headers: Mapping[str, str]) -> str | None:
    key = headers.get("idempotency-key")
    if key is not None and not 0 < len(key) <= MAX_KEY:
        raise InvalidRequest(
            _("Idempotency-Key must have 1 to {max_key} characters.").format(max_key=MAX_KEY)
        )
    return key
