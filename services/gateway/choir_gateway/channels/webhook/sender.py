"""Delivery of messages to a program: one signed request for each message, with its files."""

from datetime import UTC, datetime
from http import HTTPStatus

import httpx2

from choir_common.clients.control import OutboxFilesClient
from choir_common.errors import NotFound, OutcomeUnknown, TooLarge, Unavailable
from choir_common.webhook_signature import WebhookSigner
from choir_common.wire.attachments import Attachment
from choir_common.wire.messages import DeliveryReceipt, OutboundMessage
from choir_gateway.channels.webhook.payloads import AgentMessage, WebhookFile

# Below the outbox's own deadline for a delivery, so that the outbox receives the error.
REQUEST_TIMEOUT_S = 45.0
MAX_FILE_BYTES = 20_000_000
DEFAULT_PAUSE_S = 5.0
MAX_REASON_CHARS = 200
# The program cannot process the request now but may later; all other statuses of 400 to 499 are final.
TEMPORARY = frozenset(
    {
        HTTPStatus.UNAUTHORIZED,  # the operator can correct the secret, and the message waits for that
        HTTPStatus.FORBIDDEN,
        HTTPStatus.NOT_FOUND,  # so is a wrong address
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.CONFLICT,
        HTTPStatus.TOO_EARLY,
        HTTPStatus.TOO_MANY_REQUESTS,
    }
)


class WebhookSender:
    """Sender of one gateway's messages."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        url: str,
        *,
        signer: WebhookSigner,
        files: OutboxFilesClient,
    ) -> None:
        self._client = client
        self._url = url
        self._signer = signer
        self._files = files
        self.error = ""
        """Why the last delivery failed; empty after a success."""

    async def deliver(self, message: OutboundMessage, user_id: str) -> DeliveryReceipt:
        """Send a message; it is delivered once the response has a status of 200 to 299.

        Raises Unavailable if it was certainly not taken, OutcomeUnknown if it may have been. A repetition
        has the same id, by which the program recognizes it.
        """
        files, problems = await self._fetch_files(message)
        payload = AgentMessage(
            id=str(message.outbox_id),
            user=user_id,
            agent=message.agent_id,
            kind=message.kind,
            text="\n\n".join((message.text, *problems)) if problems else message.text,
            at=message.at,
            reply_to=message.reply_to,
            edits=message.edits.message_id if message.edits else None,
            buttons=message.buttons,
            files=files,
            maybe_repeated=message.maybe_repeated,
        )
        refusal = await self._post(str(message.outbox_id), payload.model_dump_json().encode())
        return DeliveryReceipt(
            outbox_id=message.outbox_id,
            status="undeliverable" if refusal else "delivered",
            detail=refusal or "; ".join(problems),
            message_id=None if refusal else str(message.outbox_id),
        )

    async def _post(self, message_id: str, body: bytes) -> str:
        """Send a request; return the reason if it was refused permanently, or else an empty text."""
        headers = self._signer.sign(message_id, body, datetime.now(UTC))
        try:
            response = await self._client.post(
                self._url, content=body, headers={**headers, "Content-Type": "application/json"}
            )
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            self.error = f"The program cannot be reached ({type(error).__name__})."
            raise Unavailable(self.error) from error
        except httpx2.HTTPError as error:
            self.error = f"The connection broke while sending ({type(error).__name__})."
            raise OutcomeUnknown(self.error) from error
        status = response.status_code
        if response.is_success:
            self.error = ""
            return ""
        self.error = f"The program answers with status {status}."
        if status in TEMPORARY or not 400 <= status <= 499:
            raise Unavailable(self.error, retry_after_s=_pause_s(response))
        return f"{self.error} {response.text[:MAX_REASON_CHARS]}".strip()

    async def _fetch_files(
        self, message: OutboundMessage
    ) -> tuple[tuple[WebhookFile, ...], list[str]]:
        """Return the files with their content, and a sentence for each that cannot be sent."""
        files, problems = list[WebhookFile](), list[str]()
        for attachment in message.attachments:
            try:
                content = await self._read(message.outbox_id, attachment)
            except (NotFound, TooLarge) as error:
                problems.append(f"The file {attachment.name} could not be sent: {error.message}")
            else:
                files.append(
                    WebhookFile.model_construct(
                        name=attachment.name,
                        kind=attachment.kind,
                        mime=attachment.mime,
                        content=content,
                    )
                )
        return tuple(files), problems

    async def _read(self, outbox_id: int, attachment: Attachment) -> bytes:
        content = bytearray()
        async with self._files.open(outbox_id, attachment.ref) as pieces:
            async for piece in pieces:
                content += piece
                if len(content) > MAX_FILE_BYTES:
                    raise TooLarge(f"It is larger than {MAX_FILE_BYTES // 1_000_000} MB.")
        return bytes(content)


def _pause_s(response: httpx2.Response) -> float:
    seconds = response.headers.get("retry-after", "")
    return float(seconds) if seconds.isascii() and seconds.isdigit() else DEFAULT_PAUSE_S
