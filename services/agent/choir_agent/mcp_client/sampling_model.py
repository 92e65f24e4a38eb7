"""The model calls for MCP servers, charged to the agent's budgets and recorded in the session's log."""

import orjson
import structlog

from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.mcp_client.faults import McpServerError
from choir_agent.mcp_client.sampling import Sample, SampleRequest
from choir_agent.mcp_client.server_host import RunningCall
from choir_agent.models.lane_models import all_models
from choir_agent.models.model_wrappers import CallPurpose, MeteredCompletion, MeteredModel
from choir_agent.prompt.event_messages import system_message
from choir_agent.settings import SettingsSource
from choir_common.errors import ChoirError, Fenced, Unauthorized
from choir_common.wire.events import UsageRecorded
from choir_models.completion_limits import with_limit
from choir_models.model import Prompt

log = structlog.get_logger("choir.agent.mcp")

INSTRUCTIONS = (
    "A tool server asks for a completion of the messages below. You have no tools, and know nothing but "
    "these messages. The server's own instructions:"
)
CUT = ("length", "max_tokens")


class SamplingModel:
    """Source of samples from the agent's own models; there is no fallback and no repetition."""

    def __init__(self, *, arbiter: Arbiter, model: MeteredModel, settings: SettingsSource) -> None:
        self._arbiter, self._model, self._settings = arbiter, model, settings

    async def sample(self, request: SampleRequest, call: RunningCall) -> Sample:
        """Return the answer; raises ChoirError, with a text for the server."""
        now = self._settings.current()
        config = all_models(now.settings).get(request.model)
        if config is None:
            raise McpServerError("The model for this server is none of the agent's models.")
        messages = [{"role": role, "content": text} for role, text in request.messages]
        prompt = Prompt(
            (
                system_message(f"{INSTRUCTIONS}\n\n{request.system or '(none)'}"),
                *map(orjson.dumps, messages),
            ),
            is_limited=True,
        )
        context = call.context
        purpose = CallPurpose(
            name=request.model,
            event_lane=context.lane,
            turn_id=context.turn_id or None,
            job_id=context.job_id,
            dm=context.dm,
        )
        limited, key = with_limit(config, request.max_tokens), now.secret(config.secret)
        try:
            async with self._model.complete(limited, key, prompt, purpose) as completion:
                # Inside the context, so that the reservation ends when the usage is charged.
                self._record(request, call, completion)
        except (Fenced, Unauthorized):
            raise
        except ChoirError as error:
            # The reason is the owner's business: it may name an endpoint, or what was spent.
            log.warning("no answer for an MCP server", server=request.server, error=error.message)
            raise McpServerError(f"The model gave no answer ({error.code}).") from error
        return Sample(
            completion.text, completion.model or config.model, completion.finish_reason in CUT
        )

    def _record(
        self, request: SampleRequest, call: RunningCall, completion: MeteredCompletion
    ) -> None:
        event = UsageRecorded(
            turn_id=call.context.turn_id or None,
            purpose="mcp_sampling",
            origin=f"mcp.{request.server}",
            model=completion.model,
            prompt_tokens=completion.prompt_tokens,
            completion_tokens=completion.completion_tokens,
            cached_tokens=completion.cached_tokens,
            usage=completion.usage,
        )
        self._arbiter.commit(call.context.lane, event, more_follows=True)
