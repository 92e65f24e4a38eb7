"""What searches of knowledge and reminders return by default: what answers, and nothing that does not."""

from tests.eval.harness import running_harness
from tests.eval.precision import CASES, count_passed, measure_precision, read_precision

MIN_QUERIES, MIN_REMINDERS = 43, 49
"""Of 52 cases. Ten of the queries are about something that memory does not contain; the four in Chinese and
Japanese pass."""


async def test_what_is_superseded_out_of_scope_or_about_something_else_is_left_out() -> None:
    spaces = read_precision(CASES)
    assert sum(len(space.cases) for space in spaces) == 52
    async with running_harness() as harness:
        outcomes = await measure_precision(harness, spaces)
    missing = {one.case.query for one in outcomes if one.source == "query" and one.missing}
    assert not missing
    over = ("home old", "car old", "doctor old", "gym")
    assert not [one for one in outcomes if set(one.returned) & set(over)]
    assert count_passed(outcomes, "query") >= MIN_QUERIES
    assert count_passed(outcomes, "reminders") >= MIN_REMINDERS
