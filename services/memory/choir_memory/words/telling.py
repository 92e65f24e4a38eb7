"""Which of a question's words tell what it is about. Called by `search` before it looks for them."""

from collections.abc import Collection, Mapping, Sequence

from choir_memory.words.tokens import query_terms

_ASKING = """
a about am an and are as at be been being but by can could did do does for from had has have he her
him his how i if in is it its me might my no not of on or our she should so than that the their them
then these they this those to was we were what when where which who whom whose why will with would
you your
"""
STOP_TERMS = frozenset(_ASKING.split()) | frozenset(query_terms(_ASKING))
"""English words that ask or join. They are rare in short turns that tell and common in those that ask, so
their rarity alone gives them weight in the wrong place. Other languages have none: rarity does the work."""


def telling_terms(terms: Sequence[str]) -> list[str]:
    """Leave out the words that only ask or join, unless there are no others."""
    return [one for one in terms if one not in STOP_TERMS] or list(terms)


def named_speakers(
    terms: Collection[str], speakers: Collection[str]
) -> Mapping[str, frozenset[str]]:
    """Return the speakers whose first name stands in a question, each with all terms of the name."""
    named = {}
    for speaker in speakers:
        name = query_terms(speaker)
        if name and name[0] in terms:
            named[speaker] = frozenset(name)
    return named
