"""How far something from a session may be trusted, by what it rests on: pure.

Called by `chunks` for what a tool call brought in, by `summary` and `layers.episodes` for the sentences of a
summary.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from choir_common.eventlog.outside import is_outside
from choir_common.wire.events import ToolResultCommitted
from choir_common.wire.json import JsonObject
from choir_memory.documents.kinds import TRUST
from choir_memory.words.telling import telling_terms

TRUSTED = TRUST["agent"]
"""What users and the agent said in turns that read nothing from elsewhere."""
OWN_TOOLS = ("choir.memory.", "choir.core.", "choir.skill.", "choir.propose.")
"""Their answers are Choir's own words about what the agent did..."""
TELL_OF_OTHERS = ("choir.core.list",)
"""...but for these: they repeat what jobs have reported, whatever that came from."""
MEMORY_QUERY = "choir.memory.query"
MOST_UNITS = 3
"""Units one sentence rests on; words gathered from more of them may say something nobody said."""
COVERED = 0.75
"""Share of a sentence's words that trusted units must hold: the rest may be a stranger's, in other words."""
NOBODY = frozenset(telling_terms("user"))
"""How summaries call who spoke; it is no word of anybody's."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")


@dataclass(frozen=True, slots=True)
class Source:
    """A unit of the session: its trust, and which of the summary's words it holds."""

    trust: int
    terms: frozenset[str]


@dataclass(frozen=True, slots=True)
class Part:
    """What of a text may be trusted alike."""

    text: str
    trust: int


def trust_of_result(result: ToolResultCommitted) -> int | None:
    """Return the trust of what a call brought into its turn; None if it brought in nothing from elsewhere."""
    if result.status == "refused" or _is_unconfigured(result):
        return None
    if result.tool == MEMORY_QUERY:
        return _least_recalled(result.output)
    if result.tool.startswith(OWN_TOOLS) and result.tool not in TELL_OF_OTHERS:
        return None
    return TRUST["web" if is_outside(result.tool) else "tool"]


def by_trust(text: str, sources: Sequence[Source], least: int) -> list[Part]:
    """Return what trusted units support, then the rest, which is trusted as little as the `least` unit."""
    if least >= TRUSTED:
        return [Part(text, TRUSTED)] if text.strip() else []
    kept: dict[bool, list[str]] = {True: [], False: []}
    for line in text.splitlines():
        sentences = [one for one in _SENTENCE_END.split(line) if one.strip()]
        supported = [is_supported(one, sources) for one in sentences]
        for wanted, lines in kept.items():
            said = [one for one, is_so in zip(sentences, supported, strict=True) if is_so == wanted]
            if said:
                lines.append(" ".join(said))
    parts = (Part("\n".join(kept[True]), TRUSTED), Part("\n".join(kept[False]), least))
    return [part for part in parts if part.text.strip()]


def is_supported(sentence: str, sources: Sequence[Source]) -> bool:
    """Tell whether a sentence rests on trusted units, and on no other.

    They hold most of its words, and those they do not hold stand in no unit that is less trusted.
    """
    left = terms = frozenset(telling_terms(sentence)) - NOBODY
    trusted = [one.terms for one in sources if one.trust >= TRUSTED]
    for _ in range(MOST_UNITS):
        left -= max(trusted, key=lambda held: len(held & left), default=frozenset())
    if not terms or len(terms - left) < COVERED * len(terms):
        return False
    return not any(one.terms & left for one in sources if one.trust < TRUSTED)


def terms_of(texts: Collection[str]) -> list[str]:
    """Return the words of these texts that sources are compared by."""
    return sorted({term for text in texts for term in _sentence_terms(text)})


def _sentence_terms(text: str) -> Iterator[str]:
    for line in text.splitlines():
        for sentence in _SENTENCE_END.split(line):
            yield from telling_terms(sentence)


def _is_unconfigured(result: ToolResultCommitted) -> bool:
    # of a tool of Choir's own; what else a program of others calls its failures says nothing
    builtin = result.tool.startswith("choir.") and result.status == "error"
    return builtin and result.output.get("code") == "not_configured"


def _least_recalled(output: JsonObject) -> int | None:
    """Return the least trust among what a search of memory has found."""
    found = output.get("found")
    if not isinstance(found, list):
        # the session's own log, or an answer that was too long for the log
        return None if output.get("hits") == [] else TRUST["tool"]
    return min(map(_trust_of_hit, found), default=None)


def _trust_of_hit(hit: JsonValue) -> int:
    trust = hit.get("trust") if isinstance(hit, dict) else None
    if not isinstance(hit, dict) or not isinstance(trust, int):
        return TRUST["tool"]
    # what stands beside a hit comes without its trust
    return min(trust, TRUST["tool"]) if hit.get("before") or hit.get("after") else trust
