"""Client for an OpenAI-compatible `/chat/completions` endpoint, using the openai SDK."""

from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError, AsyncOpenAI
from pydantic import BaseModel, ConfigDict, ValidationError

from choir_common.errors import ChoirError, DeadlineExceeded, RateLimited, Unavailable
from choir_common.wire.config import ModelConfig
from choir_common.wire.model import JsonObject

TOO_MANY = 429


class _ResponseModel(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Message(_ResponseModel):
    content: str | None = None


class _Choice(_ResponseModel):
    message: _Message


class _Completion(_ResponseModel):
    choices: list[_Choice]


class ChatCompletionsClient:
    """One HTTP client for one provider; call `close` after use."""

    def __init__(self, settings: ModelConfig, key: str | None) -> None:
        # the SDK requires a key, which a local server ignores; no retries: the next pass tries again
        self._client = AsyncOpenAI(
            base_url=settings.endpoint,
            api_key=key or "none",
            timeout=settings.timeout_ms / 1000,
            max_retries=0,
        )

    async def complete(self, settings: ModelConfig, instructions: str, material: str) -> str:
        """Return the text of the completion.

        Raises Unavailable, RateLimited or DeadlineExceeded. Error messages do not quote the provider's
        response.
        """
        body: JsonObject = {
            "model": settings.model,
            "messages": [
                {"role": "system", "content": instructions},
                {"role": "user", "content": material},
            ],
        }
        if settings.max_completion_tokens is not None:
            body["max_completion_tokens"] = settings.max_completion_tokens
        if settings.reasoning_effort is not None:
            body["reasoning_effort"] = settings.reasoning_effort
        body |= settings.request.body_fields()
        try:
            raw = await self._client.post(
                "/chat/completions",
                cast_to=object,
                body=body,
                options={"headers": dict(settings.request.extra_headers)},
            )
            answer = _Completion.model_validate(raw)
        except APIError as error:
            raise _as_choir(error) from error
        except (ValidationError, ValueError) as error:
            raise Unavailable("The model's response cannot be parsed.") from error
        return (answer.choices[0].message.content or "") if answer.choices else ""

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _as_choir(error: APIError) -> ChoirError:
    match error:
        case APITimeoutError():
            return DeadlineExceeded("The model did not answer in time.")
        case APIConnectionError():
            return Unavailable("The model's provider cannot be reached.")
        case APIStatusError(status_code=status) if status == TOO_MANY:
            return RateLimited("The model's provider rate limit is exceeded (HTTP 429).")
        case APIStatusError(status_code=401 | 403 as status):
            return Unavailable(
                f"The model's provider rejects the key (HTTP {status}); check the secret of the "
                "model named in `memory.model`."
            )
        case APIStatusError(status_code=status):
            return Unavailable(f"The model's provider failed (HTTP {status}).")
        case _:
            return Unavailable("The model's response cannot be parsed.")
