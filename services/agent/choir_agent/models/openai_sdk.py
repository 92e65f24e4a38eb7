"""The openai SDK, reduced to what Choir uses of it: a client that posts bytes and returns the body.

Imported by `openai_model` when the first model call is made, and nowhere else: importing the SDK takes
time and memory (see `sdk_import`). `post` is used instead of `chat.completions.create`, which costs
0.25 ms per message.
"""

import httpx2
import openai

from choir_agent.models.model import ModelFailed
from choir_common.errors import RateLimited

MAX_DETAIL = 300


class SdkClient:
    """One endpoint with one key; built once and kept."""

    def __init__(self, endpoint: str, api_key: str | None) -> None:
        # a local endpoint needs no certificates, whose bundle takes 3 MB
        plain = endpoint.startswith("http://")
        self._client = openai.AsyncOpenAI(
            base_url=endpoint,
            api_key=api_key or "none",
            # retries are ours (spec 7.7): one, after the user was told
            max_retries=0,
            http_client=httpx2.AsyncClient(verify=False) if plain else None,
        )

    async def complete(self, body: bytes, timeout_s: float) -> bytes:
        """Post a chat completion request and return the response's body.

        Raises RateLimited or ModelFailed.
        """
        try:
            response = await self._client.post(
                "/chat/completions",
                cast_to=httpx2.Response,
                content=body,
                options={
                    "headers": {"Content-Type": "application/json"},
                    "timeout": httpx2.Timeout(timeout_s, connect=10.0),
                },
            )
        except openai.RateLimitError as error:
            raise RateLimited(
                "the provider limits the rate of requests",
                retry_after_s=_retry_after(error.response.headers.get("retry-after")),
            ) from error
        except openai.APIStatusError as error:
            detail = f"the provider answered {error.status_code}: {error.message}"
            raise ModelFailed(detail[:MAX_DETAIL]) from error
        except openai.APITimeoutError as error:
            raise ModelFailed(f"the provider did not answer within {timeout_s:g} s") from error
        except openai.APIConnectionError as error:
            reason = str(error.__cause__ or error)
            raise ModelFailed(f"the provider cannot be reached: {reason}"[:MAX_DETAIL]) from error
        except openai.OpenAIError as error:
            raise ModelFailed(f"the model call failed: {error}"[:MAX_DETAIL]) from error
        return response.content

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _retry_after(value: str | None) -> float | None:
    try:
        seconds = float(value or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
