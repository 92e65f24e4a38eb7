"""Trust of tool results and of the sentences of a summary, by the sources they rest on: pure.

Among these sources is what a session took over from the ones before it (`Inherited`).
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from choir_common.eventlog.tool_results import OWN_OUTPUT, output_source
from choir_common.lanes import is_edge
from choir_common.wire.events import (
    CarriedEvent,
    MemoryCompacted,
    SessionStarted,
    ToolResultCommitted,
)
from choir_common.wire.model import JsonObject
from choir_memory.documents.model import TRUST
from choir_memory.text.questions import content_terms

TRUST_WITHOUT_OUTSIDE_SOURCES = TRUST["agent"]
"""Trust of users and agent in turns that read nothing from outside."""
MEMORY_QUERY = "choir.memory.query"
MAX_SUPPORTING_UNITS = 3
"""Maximum units that may support one sentence; words from more of them could be combined to something
nobody said."""
MIN_COVERAGE = 0.75
"""Share of a sentence's terms that trusted units must contain; the rest may come from an untrusted
source."""
SPEAKER_TERMS = frozenset(content_terms("user"))
"""How summaries refer to the speaker; not a content word."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
ALL_REVS = (0, 2**62)


@dataclass(frozen=True, slots=True)
class TrustSource:
    """A unit of the session: its trust, and which of the summary's terms it contains."""

    trust: int
    terms: frozenset[str]


@dataclass(frozen=True, slots=True)
class TrustedPart:
    """A part of a text with uniform trust."""

    text: str
    trust: int


@dataclass(slots=True)
class Inherited:
    """The sessions, and of each the first and the last revision, that a session's summary may repeat.

    A session begins with a reference summary and with copies of the events that the last prompt showed
    (decision 45). Once they are folded together with its own events, its summary may repeat them, and has no
    more trust than they have.
    """

    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    least: int | None = None
    """The least trust of what the copied events had read."""
    copied_through: int = 0
    """The revision of the last copy in the new log."""
    folded: bool = False

    def begin(self, start: SessionStarted) -> None:
        """Note the sessions whose events the first summary was made from."""
        for lane in start.seed:
            for session_id in lane.summary.referenced_sessions:
                self.spans[session_id] = ALL_REVS
        if start.continues:
            self.spans[start.continues] = ALL_REVS

    def carry(self, copy: CarriedEvent, rev: int, least: int | None) -> None:
        """Note a copied event, which stands at `rev` of the new log, and the trust of what it read."""
        first, last = self.spans.get(copy.session_id, (copy.rev, copy.rev))
        self.spans[copy.session_id] = (min(first, copy.rev), max(last, copy.rev))
        self.copied_through = rev
        if least is not None:
            self.least = least if self.least is None else min(self.least, least)

    def fold(self, compaction: MemoryCompacted) -> None:
        """Note that the edge lane's summary now covers events of the session itself.

        A summary of copies alone is left out when the session is summed up.
        """
        if is_edge(compaction.target) and compaction.through_rev > self.copied_through:
            self.folded = bool(self.spans)


def trust_of_result(result: ToolResultCommitted) -> int | None:
    """Return the trust of a tool result in its turn, or None if it brought in nothing from outside."""
    if result.status == "refused" or _is_unconfigured(result):
        return None
    if result.tool == MEMORY_QUERY:
        return _least_recalled(result.output)
    source = output_source(result.tool, result.output)
    return None if source == OWN_OUTPUT else source.trust


def split_by_trust(text: str, sources: Sequence[TrustSource], least: int) -> list[TrustedPart]:
    """Return the sentences that trusted units support, then the others with the trust `least`."""
    if least >= TRUST_WITHOUT_OUTSIDE_SOURCES:
        return [TrustedPart(text, TRUST_WITHOUT_OUTSIDE_SOURCES)] if text.strip() else []
    lines_by_trust: dict[bool, list[str]] = {True: [], False: []}
    for line in text.splitlines():
        sentences = [sentence for sentence in _SENTENCE_END.split(line) if sentence.strip()]
        supported = [is_supported(sentence, sources) for sentence in sentences]
        for is_trusted, lines in lines_by_trust.items():
            texts = [
                sentence
                for sentence, has_support in zip(sentences, supported, strict=True)
                if has_support == is_trusted
            ]
            if texts:
                lines.append(" ".join(texts))
    parts = (
        TrustedPart("\n".join(lines_by_trust[True]), TRUST_WITHOUT_OUTSIDE_SOURCES),
        TrustedPart("\n".join(lines_by_trust[False]), least),
    )
    return [part for part in parts if part.text.strip()]


def is_supported(sentence: str, sources: Sequence[TrustSource]) -> bool:
    """Return whether a sentence rests on trusted units only.

    They contain most of its terms, and no less trusted unit contains one of the others.
    """
    uncovered = terms = frozenset(content_terms(sentence)) - SPEAKER_TERMS
    trusted = [source.terms for source in sources if source.trust >= TRUST_WITHOUT_OUTSIDE_SOURCES]
    for _ in range(MAX_SUPPORTING_UNITS):
        uncovered -= max(
            trusted, key=lambda source_terms: len(source_terms & uncovered), default=frozenset()
        )
    if not terms or len(terms - uncovered) < MIN_COVERAGE * len(terms):
        return False
    return not any(
        source.terms & uncovered
        for source in sources
        if source.trust < TRUST_WITHOUT_OUTSIDE_SOURCES
    )


def comparison_terms(texts: Collection[str]) -> list[str]:
    """Return the terms of these texts by which sources are compared."""
    return sorted({term for text in texts for term in _sentence_terms(text)})


def _sentence_terms(text: str) -> Iterator[str]:
    for line in text.splitlines():
        for sentence in _SENTENCE_END.split(line):
            yield from content_terms(sentence)


def _is_unconfigured(result: ToolResultCommitted) -> bool:
    # only for tools of Choir; an external tool may use this error code for anything
    builtin = result.tool.startswith("choir.") and result.status == "error"
    return builtin and result.output.get("code") == "not_configured"


def _least_recalled(output: JsonObject) -> int | None:
    """Return the least trust among the results of a memory search."""
    hits = output.get("found")
    if not isinstance(hits, list):
        # a search of the session's own log, or a result too long for the log
        return None if output.get("hits") == [] else TRUST["tool"]
    return min(map(_trust_of_hit, hits), default=None)


def _trust_of_hit(hit: JsonValue) -> int:
    trust = hit.get("trust") if isinstance(hit, dict) else None
    if not isinstance(hit, dict) or not isinstance(trust, int):
        return TRUST["tool"]
    # the context of a hit comes without its own trust
    return min(trust, TRUST["tool"]) if hit.get("before") or hit.get("after") else trust
