"""The one base of all wire models, and the small types they share."""

from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, StringConstraints

from choir_common.ids import NAME_PATTERN

RESOURCE_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
Name = Annotated[str, StringConstraints(pattern=RESOURCE_NAME_PATTERN)]
"""A configured resource's name."""

AgentName = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
"""An agent id: it names a Postgres schema, a role and directories."""

Moment = AwareDatetime
"""An aware time; written as ISO 8601."""


class Wire(BaseModel):
    """A frozen, strict model without unknown fields; read it with `model_validate_json`."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


def stamp(moment: datetime) -> str:
    """Render a time as it stands in the log: UTC, microseconds, `Z`."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
