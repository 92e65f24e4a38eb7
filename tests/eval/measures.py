"""Recall and rank measures of a search result, and their means. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields

from tests.eval.corpus import Question


@dataclass(frozen=True, slots=True)
class Measures:
    """Measures from 0 to 1; turns are single units, sessions are ranked by their best unit."""

    turn_r5: float
    turn_r10: float
    mrr: float
    session_any5: float
    session_all5: float
    session_r10: float


def measure(question: Question, found: Sequence[str], session_of: dict[str, str]) -> Measures:
    """Return the measures of one question.

    `found` contains unit ids, best first. An id without a session (a summary) takes a rank but never counts
    as a hit. Of several parts of one unit, only the best one counts.
    """
    wanted = question.evidence
    found = list(dict.fromkeys(found))
    places = [at for at, one in enumerate(found, 1) if one in wanted]
    sessions = list(dict.fromkeys(session_of[one] for one in found if one in session_of))
    true_sessions = {session_of[one] for one in wanted}
    first5 = true_sessions & set(sessions[:5])
    return Measures(
        turn_r5=len(wanted & set(found[:5])) / len(wanted),
        turn_r10=len(wanted & set(found[:10])) / len(wanted),
        mrr=1 / places[0] if places else 0.0,
        session_any5=float(bool(first5)),
        session_all5=float(first5 == true_sessions),
        session_r10=len(true_sessions & set(sessions[:10])) / len(true_sessions),
    )


def mean(measured: Iterable[Measures]) -> Measures:
    """Return the mean over questions; 0 if there are none."""
    rows = [asdict(one) for one in measured]
    names = [one.name for one in fields(Measures)]
    return Measures(*(round(sum(row[n] for row in rows) / max(len(rows), 1), 4) for n in names))
