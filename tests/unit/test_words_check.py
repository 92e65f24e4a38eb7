"""The words gate: phrases in prose, names, and participles as variables."""

import ast

import pytest

from tests.words_check import BoundNames, WordRules, check_names, check_prose

RULES = WordRules(
    prose={"whoever": 'write "anyone who"', "none where": 'write "or None if"'},
    names={"desk": 'write "ApprovalService"'},
    foreign_names=frozenset({"STANDING_DESK"}),
    participles=frozenset({"found", "held"}),
    participle_ceiling=1,
    banned_ceiling=0,
    exempt=[],
)


def prose_faults(text: str, place: str = "module.py") -> list[str]:
    """Return the faults in the prose of one file."""
    return list(check_prose(place, text, RULES))


def name_faults(code: str) -> list[str]:
    """Return the faults in the names of one module."""
    names = BoundNames()
    names.collect("module.py", ast.parse(code))
    return list(check_names(names, RULES))


def test_a_banned_phrase_is_reported_with_its_place_and_standard_form() -> None:
    faults = prose_faults('"""Notify whoever waits."""\n')
    assert faults == ['module.py:1: "whoever": write "anyone who"']


@pytest.mark.parametrize(
    "text",
    [
        "x = 1  # Whoever comes first\n",
        'def f() -> None:\n    """Return it, none\n    where it is missing."""\n',
        "# a value, none\n# where it is missing\n",
    ],
)
def test_comments_capitals_and_line_breaks_are_read(text: str) -> None:
    assert len(prose_faults(text)) == 1


def test_strings_and_code_spans_are_not_prose() -> None:
    assert prose_faults('"""A module."""\nPROMPT = "whoever asks"\n') == []
    assert prose_faults("The field `whoever` is a wire name.\n", "README.md") == []


def test_markdown_is_read_line_by_line() -> None:
    faults = prose_faults("# Title\n\nAsk whoever knows.\n", "README.md")
    assert faults == ['README.md:3: "whoever": write "anyone who"']


@pytest.mark.parametrize("name", ["class ApprovalDesk: ...", "def make_desk(): ..."])
def test_a_banned_word_in_a_definition_is_a_fault(name: str) -> None:
    [fault] = name_faults(name)
    assert fault.endswith('write "ApprovalService"')


def test_a_name_that_contains_a_banned_word_as_letters_only_is_none() -> None:
    assert name_faults("class Desktop: ...\nSTANDING_DESK = 1\n") == []


def test_variables_are_faults_only_above_their_ceiling() -> None:
    assert name_faults("found = 1") == []
    assert name_faults("found = 1\n_held = 2")[0].startswith("2 variables above the ceiling 1")
    assert name_faults("desk = 1")[0].startswith("1 variables above the ceiling 0")


def test_all_variables_can_be_listed() -> None:
    names = BoundNames()
    names.collect("module.py", ast.parse("found = 1"))
    assert list(check_names(names, RULES, list_all=True)) == ['module.py:1: "found": write a noun']


def test_attributes_parameters_and_exceptions_are_bindings() -> None:
    names = BoundNames()
    names.collect(
        "module.py",
        ast.parse("def f(self, a):\n    self.b = a\n    try: ...\n    except E as c: ..."),
    )
    assert {name for _, name in names.variables} == {"a", "b", "c"}


def test_the_rules_of_the_repository_can_be_read() -> None:
    rules = WordRules.load()
    assert list(rules.find_phrases("Serve whoever asks,\nfor\never")) == [
        (1, "whoever", 'write "anyone who" or name the role'),
        (2, "for ever", 'write "until cancelled", "without limit" or "permanently"'),
    ]
