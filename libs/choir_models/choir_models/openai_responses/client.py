"""HTTP client of the Responses API."""

from choir_models.openai.client import OpenAiClient, StreamedBody
from choir_models.openai_responses.response_codec import StreamedResponse


class ResponsesClient(OpenAiClient):
    """Client for one endpoint with one key."""

    path = "/responses"

    def start_stream(self) -> StreamedBody:
        """Return the assembler of a stream."""
        return StreamedResponse()
