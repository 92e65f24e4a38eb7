"""One operation of the HTTP API: method, path, and the types of its request and response."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict

ResponseT = TypeVar("ResponseT", bound=BaseModel)
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
QueryParams = Mapping[str, str | list[str]]
READ_TIMEOUT_S = 15.0
WRITE_TIMEOUT_S = 30.0


class AnyBody(BaseModel):
    """A request body with any fields, which the server completes and checks."""

    model_config = ConfigDict(extra="allow")


class Nothing(BaseModel):
    """The response of an operation without one (204)."""


@dataclass(frozen=True, slots=True)
class Operation(Generic[ResponseT]):
    """An operation as OpenAPI describes it: `tests/service/control/test_openapi.py`."""

    method: Method
    path: str
    """A template: `/v1/agents/{agent_id}`."""
    response: type[ResponseT]
    body: type[BaseModel] | None = None
    timeout_s: float | None = None
    """Seconds until DeadlineExceeded; default: 15 for GET, 30 for others."""

    @property
    def deadline_s(self) -> float:
        """Seconds until DeadlineExceeded."""
        if self.timeout_s is not None:
            return self.timeout_s
        return READ_TIMEOUT_S if self.method == "GET" else WRITE_TIMEOUT_S

    def url(self, names: Mapping[str, str | int]) -> str:
        """Return the path for these names; any character of a name is quoted."""
        return self.path.format_map({key: quote(str(name), safe="") for key, name in names.items()})


@dataclass(frozen=True, slots=True)
class Stream:
    """An operation whose response is a stream: server-sent events, or lines."""

    path: str

    def url(self, names: Mapping[str, str | int]) -> str:
        """Return the path for these names; any character of a name is quoted."""
        return self.path.format_map({key: quote(str(name), safe="") for key, name in names.items()})
