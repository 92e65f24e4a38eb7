"""Client of the Responses API based on the openai SDK."""

from choir_models.openai.sdk_client import OpenAiClient, StreamedBody
from choir_models.openai_responses.response_codec import StreamedResponse


class ResponsesClient(OpenAiClient):
    """Client for one endpoint with one key."""

    path = "/responses"

    def start_stream(self) -> StreamedBody:
        """Return the assembler of a stream."""
        return StreamedResponse()
