"""Format of earlier steps for one model, and the alternatives if the model refuses it. Pure."""

import re
from dataclasses import dataclass, replace

from choir_common.wire.events import ProviderFields
from choir_common.wire.model import JsonObject

_MISSES_FIELDS = re.compile(
    r"missing|required|must be (passed|provided|included|sent)", re.IGNORECASE
)

_ABOUT_PDFS = re.compile(
    r"\bpdf\b|\bdocuments?\b|input_file|file_data|mime ?type|'file'", re.IGNORECASE
)
_ABOUT_PICTURES = re.compile(
    r"image|vision|multi-?modal|unknown variant `?image_url", re.IGNORECASE
)
_ABOUT_ONE_PICTURE = re.compile(
    r"could not process|corrupt|damaged|exceed|too (large|big|many)|dimension|(invalid|unsupported) image"
    r"|image (format|type|size)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class HistoryFormat:
    """The format in which a model accepts its history."""

    origin: str = ""
    """Identifier of the model; fields from other models are omitted."""
    with_fields: bool = True
    """Whether the model's own fields are sent back to it."""
    fields_after: int = 0
    """Fields are sent back only with messages after this revision."""
    plain_through: int = 0
    """Calls up to this revision are written as text, unless fields of the model are sent with them."""
    shows_pictures: bool = False
    """Whether the model reads pictures."""
    pdf_pages: int = 0
    """Pages of the longest PDF that the model gets as it is; longer ones are text."""

    def fields_of(self, rev: int, fields: ProviderFields | None) -> ProviderFields | None:
        """Return the fields to send back with a message, or None."""
        if fields is None or fields.origin != self.origin:
            return None
        return fields if self.with_fields and rev > self.fields_after else None

    def is_text_only(self, rev: int, fields: ProviderFields | None) -> bool:
        """Return whether the calls of a message are written as text."""
        return rev <= self.plain_through and self.fields_of(rev, fields) is None

    def alternatives(self, refusal: str, rev: int) -> tuple["HistoryFormat", ...]:
        """Return the formats to try after a refusal at revision `rev`, the most likely first.

        A history may lack fields that the model requires (an older version of Choir dropped them, or
        another model made the calls), contain fields that the endpoint sends but does not accept, or
        contain fields that are no longer valid. A model without sight may be taken for one that sees.
        """
        if self.pdf_pages and _ABOUT_PDFS.search(refusal):
            text_only = replace(self, pdf_pages=0)
            return (text_only, *text_only.alternatives(refusal, rev))
        # The name of a model may be in the refusal, and "vision" in the name.
        is_about_pictures = self.shows_pictures and _ABOUT_PICTURES.search(refusal)
        blind = (replace(self, shows_pictures=False),) if is_about_pictures else ()
        plain = replace(self, plain_through=rev)
        without = replace(self, with_fields=False)
        first = plain if _MISSES_FIELDS.search(refusal) else without
        return (*blind, first, replace(plain, fields_after=rev))


def holds_later(history: HistoryFormat, before: HistoryFormat, refusal: str) -> bool:
    """Return whether later requests should have a format that was accepted after a refusal, too.

    A refusal of one picture does not mean that the model cannot see.
    """
    is_without_pictures = before.shows_pictures and not history.shows_pictures
    return not (is_without_pictures and _ABOUT_ONE_PICTURE.search(refusal))


def request_call_id(call_id: str, fields: JsonObject) -> str:
    """Return the id of a call in the request: the provider's own, because other fields may refer to it."""
    own = fields.get("id")
    return own if isinstance(own, str) else call_id
