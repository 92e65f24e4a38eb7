"""Memory deltas: parsing a model's change of a reference summary, and applying it within limits. Pure.

An invalid delta changes nothing and reports the reason, so that no answer can corrupt the summary.
"""

from collections.abc import Iterable
from typing import Annotated, Literal

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from choir_common.errors import ChoirError
from choir_common.wire.events import Fact, ReferenceSummary
from choir_common.wire.model import JsonObject
from choir_common.wire.validation_messages import error_message

SHORT_HASH_LENGTH = 12
"""Length of the event hashes in prompts and summaries."""
MIN_HASH_LENGTH = 6
MAX_FACTS = 100
MAX_REFERENCES = 100
MAX_KEY = 200
MAX_VALUE = 2_000
MAX_SUMMARY_BYTES = 24_000
MIN_SUMMARY_BYTES = 500


class InvalidDelta(ChoirError):
    """The delta cannot be applied; the message describes to the model what to change."""

    code, status = "bad_delta", 422


def _listed(value: object) -> object:
    return [] if value is None else value if isinstance(value, list) else [value]


def _keyed(value: object) -> object:
    return [{"key": item} if isinstance(item, str) else item for item in _items(_listed(value))]


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


class _DeltaModel(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Key(_DeltaModel):
    key: str


class _NewFact(_DeltaModel):
    key: str = Field(min_length=1, max_length=MAX_KEY)
    value: str = Field(min_length=1, max_length=MAX_VALUE)
    source_event: str = ""


_Many = Field(default=(), max_length=MAX_REFERENCES)


class MemoryDelta(_DeltaModel):
    """A change of a reference summary; `add_fact` and `remove_fact` accept one fact or a list."""

    mode: Literal["append", "overwrite"] = "append"
    summary_update: str = ""
    add_references: Annotated[tuple[str, ...], BeforeValidator(_listed)] = _Many
    remove_references: Annotated[tuple[str, ...], BeforeValidator(_listed)] = _Many
    add_fact: Annotated[tuple[_NewFact, ...], BeforeValidator(_listed)] = _Many
    remove_fact: Annotated[tuple[_Key, ...], BeforeValidator(_keyed)] = _Many

    def as_json(self) -> JsonObject:
        """Return the delta as it is stored in the log."""
        dumped: JsonObject = self.model_dump(mode="json")
        return dumped


def max_summary_bytes(context_window: int) -> int:
    """Return the maximum size of a summary in bytes: a third of a byte per token of the context window."""
    return max(MIN_SUMMARY_BYTES, min(MAX_SUMMARY_BYTES, context_window // 3))


def parse_delta(text: str) -> MemoryDelta:
    """Parse the delta in a model's answer, with or without a code fence; raises InvalidDelta."""
    try:
        answer = orjson.loads(extract_json(text))
    except orjson.JSONDecodeError as error:
        raise InvalidDelta(f"The answer is not one JSON object: {error}.") from error
    if not isinstance(answer, dict):
        raise InvalidDelta("The answer is not a JSON object.")
    try:
        return MemoryDelta.model_validate(answer.get("memory_delta", answer))
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, fault["loc"])) or "memory_delta"
        raise InvalidDelta(f"{where}: {error_message(fault)}.") from error


def extract_json(text: str) -> str:
    """Return the part of an answer from its first to its last brace."""
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text


def apply_delta(
    summary: ReferenceSummary, delta: MemoryDelta, hashes: Iterable[str], room: int
) -> ReferenceSummary:
    """Return the summary after the delta, at most `room` bytes long as JSON.

    `hashes` are those of the folded events; only they may be added as references. Raises InvalidDelta.
    """
    known_hashes = tuple(hashes)
    if not (delta.summary_update.strip() or delta.add_fact):
        raise InvalidDelta("The delta is empty: add summary_update or a fact.")
    changed = ReferenceSummary(
        summary=_new_text(summary.summary, delta),
        facts=_new_facts(summary.facts, delta, known_hashes),
        referenced_sessions=summary.referenced_sessions,
        referenced_events=_new_references(summary.referenced_events, delta, known_hashes),
    )
    # Trivial events may leave a summary unchanged. Accept that only if the model repeats the summary
    # explicitly.
    said_again = delta.mode == "overwrite" and bool(delta.summary_update.strip())
    if changed == summary and not said_again:
        raise InvalidDelta("The delta is empty: add summary_update or a fact.")
    size = len(changed.model_dump_json().encode())
    if size > room:
        raise InvalidDelta(
            f"The summary would have {size} bytes, the limit is {room}: use mode overwrite with a "
            "shorter summary_update, and remove facts that no longer matter."
        )
    return changed


def _new_text(before: str, delta: MemoryDelta) -> str:
    update = delta.summary_update.strip()
    if not update:
        return before
    return update if delta.mode == "overwrite" or not before else f"{before}\n{update}"


def _new_facts(
    before: tuple[Fact, ...], delta: MemoryDelta, known_hashes: tuple[str, ...]
) -> tuple[Fact, ...]:
    facts = {fact.key: fact for fact in before}
    for removal in delta.remove_fact:
        facts.pop(removal.key, None)
    for fact in delta.add_fact:
        source = _short(fact.source_event, known_hashes) if fact.source_event else ""
        # A changed fact moves to the end, with the newest ones.
        facts.pop(fact.key, None)
        facts[fact.key] = Fact(key=fact.key, value=fact.value, source_event=source)
    if len(facts) > MAX_FACTS:
        raise InvalidDelta(
            f"There would be {len(facts)} facts, the limit is {MAX_FACTS}: remove some."
        )
    return tuple(facts.values())


def _new_references(
    before: tuple[str, ...], delta: MemoryDelta, known_hashes: tuple[str, ...]
) -> tuple[str, ...]:
    removed = {reference[:SHORT_HASH_LENGTH] for reference in delta.remove_references}
    remaining = [reference for reference in before if reference not in removed]
    added = (_short(reference, known_hashes) for reference in delta.add_references)
    references = tuple(dict.fromkeys([*remaining, *added]))
    if len(references) > MAX_REFERENCES:
        raise InvalidDelta(
            f"There would be {len(references)} references, the limit is {MAX_REFERENCES}: remove some."
        )
    return references


def _short(reference: str, known_hashes: tuple[str, ...]) -> str:
    """Return the short hash of the one folded event that a reference matches; raises InvalidDelta."""
    prefix = reference.strip().lower()
    fits = {event for event in known_hashes if event.startswith(prefix)}
    if len(prefix) < MIN_HASH_LENGTH or len(fits) != 1:
        raise InvalidDelta(
            f"{reference[:80]!r} is not the hash of one of these events: use a hash as shown."
        )
    return fits.pop()[:SHORT_HASH_LENGTH]
