"""Every subject of the bus has one route, which its docstring states."""

import inspect
import re
from collections import Counter

from choir_common.bus import subjects

DIRECTION = re.compile(r"(\w+) → (\w+)\b")


def functions() -> dict[str, str]:
    """Return each function that names a subject, by that subject."""
    members = inspect.getmembers(subjects, inspect.isfunction)
    own = [(n, f) for n, f in members if f.__module__ == subjects.__name__ and n[0] != "_"]
    return {function(): inspect.getdoc(function) or "" for _, function in own}


def test_every_subject_has_exactly_one_route() -> None:
    assert Counter(route.subject for route in subjects.ROUTES) == Counter([*functions()])


def test_the_documentation_of_a_subject_names_its_publisher_and_subscriber() -> None:
    documented = functions()
    for route in subjects.ROUTES:
        if route.subject != subjects.unserved():
            stated = DIRECTION.match(documented[route.subject])
            assert stated is not None, route
            assert ([stated[1]], [stated[2]]) == ([*route.publishers], [*route.subscribers])


def test_no_subject_contains_a_wildcard() -> None:
    assert not any(set("*>") & set(route.subject) for route in subjects.ROUTES)
