"""Questions of MCP servers to a person (elicitation): what an agent may pass on, and the values of an answer.

The agent has checked the same before. Control checks again, because an agent must not be able to ask a person
for anything else in the name of a server. See decision 101.
"""

from dataclasses import dataclass

import orjson
from pydantic import Field, ValidationError, model_validator

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.mcp_forms import (
    MAX_TEXT,
    check_address,
    check_values,
    find_secret,
    needs_values,
    read_form,
)
from choir_common.wire.mcp_config import McpServerName
from choir_common.wire.model import JsonObject, WireModel
from choir_common.wire.validation_messages import error_messages
from choir_control.configuration.current import ConfigService

REQUEST_TYPE = "mcp_question"


class McpQuestionPayload(WireModel):
    """A question, with either a form or an address."""

    server: McpServerName
    tool: str = Field(max_length=200)
    """The tool whose call is running."""
    message: str = Field(max_length=MAX_TEXT)
    form: JsonObject | None = None
    """The schema of the values, as the server sent it."""
    url: str | None = None

    @model_validator(mode="after")
    def _check(self) -> "McpQuestionPayload":
        if (self.form is None) == (self.url is None):
            raise ValueError(_("a question has either a form or a url"))
        return self


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person gives besides a yes or a no."""

    values: JsonObject | None = None
    is_dismissed: bool = False
    """The question is closed without an answer."""


NO_ANSWER = Answer()


def check_question(configuration: ConfigService, agent_id: str, payload: JsonObject) -> None:
    """Raise InvalidRequest for a question that a person must not be asked."""
    try:
        question = McpQuestionPayload.model_validate_json(orjson.dumps(payload))
    except ValidationError as error:
        raise InvalidRequest("; ".join(error_messages(error, "payload")[:3])) from error
    config = configuration.current.config.mcp.servers_of(agent_id).get(question.server)
    if config is None or not config.elicitation:
        raise InvalidRequest(
            _("config.json does not let an MCP server {server!r} of {agent} ask the user.").format(
                server=question.server, agent=agent_id
            )
        )
    if question.form is not None:
        secret = find_secret(question.message, question.form)
        if secret is not None:
            raise InvalidRequest(
                _("The question asks for a secret ({secret}).").format(secret=secret)
            )
        read_form(question.form)
    else:
        check_address(str(question.url))


def needs_form_values(request_type: str, payload: JsonObject) -> bool:
    """Return whether a yes alone is no answer to a request."""
    form = payload.get("form")
    return request_type == REQUEST_TYPE and isinstance(form, dict) and needs_values(form)


def read_values(request_type: str, payload: JsonObject, answer: Answer) -> JsonObject | None:
    """Return the values that a yes gives to a server's form; None for a request without a form.

    Raises InvalidRequest that names what is missing or wrong.
    """
    form = payload.get("form") if request_type == REQUEST_TYPE else None
    if isinstance(form, dict):
        return check_values(form, answer.values or {})
    if answer.values:
        raise InvalidRequest(_("Only a question with a form takes values."))
    return None
