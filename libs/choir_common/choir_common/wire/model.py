"""Base class of all wire models, and the small types they share."""

from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, JsonValue, StringConstraints

from choir_common.ids import NAME_PATTERN

RESOURCE_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
UUID_PATTERN = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
Name = Annotated[str, StringConstraints(pattern=RESOURCE_NAME_PATTERN)]
"""Name of a configured resource."""

AgentName = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
"""An agent id, which is also the name of a Postgres schema, a role and directories."""

AwareTime = AwareDatetime
"""An aware time; serialized as ISO 8601."""


class WireModel(BaseModel):
    """A frozen, strict model that forbids unknown fields; parse it with `model_validate_json`.

    Its validator is built when it is first used, because a process uses few of the models that it imports.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True)


DEFERRED = ConfigDict(defer_build=True)
"""Configuration of a module's TypeAdapter that is built when it is first used, as wire models are."""


def format_log_time(moment: datetime) -> str:
    """Format a UTC time as in the log: ISO 8601 with microseconds and `Z`."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


JsonObject = dict[str, JsonValue]
