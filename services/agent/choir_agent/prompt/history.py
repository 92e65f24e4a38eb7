"""How the earlier steps of a lane are written for one model, and what to try when it refuses them: pure.

Used by `assemble` and `render`; chosen by `lanes/think`.
"""

import re
from dataclasses import dataclass, replace

from choir_common.wire.json import JsonObject
from choir_common.wire.provider_fields import ProviderFields

_MISSES_FIELDS = re.compile(
    r"missing|required|must be (passed|provided|included|sent)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class HistoryFormat:
    """How a model takes the steps of a history."""

    origin: str = ""
    """The model; fields that another one sent are left out."""
    with_fields: bool = True
    """Whether the model's own fields go back to it."""
    fields_after: int = 0
    """They do with messages after this revision."""
    plain_through: int = 0
    """Calls up to this revision are written as text, unless fields of the model go with them."""

    def fields_of(self, rev: int, fields: ProviderFields | None) -> ProviderFields | None:
        """Return the fields that go back with a message, if any."""
        if fields is None or fields.origin != self.origin:
            return None
        return fields if self.with_fields and rev > self.fields_after else None

    def is_plain(self, rev: int, fields: ProviderFields | None) -> bool:
        """Tell whether the calls of a message are written as text."""
        return rev <= self.plain_through and self.fields_of(rev, fields) is None

    def alternatives(self, refusal: str, rev: int) -> tuple["HistoryFormat", ...]:
        """Return what else to try, the likeliest first, after a request was refused at `rev`.

        A history may lack fields that the model insists on (an older version of Choir dropped them, or
        another model made the calls), hold fields that an endpoint sends but does not take, or
        fields that are no longer valid.
        """
        plain = replace(self, plain_through=rev)
        without = replace(self, with_fields=False)
        first = plain if _MISSES_FIELDS.search(refusal) else without
        return (first, replace(plain, fields_after=rev))


def call_id_of(call_id: str, fields: JsonObject) -> str:
    """Return the id a call goes back under: the provider's own, if other fields may refer to it."""
    own = fields.get("id")
    return own if isinstance(own, str) else call_id
