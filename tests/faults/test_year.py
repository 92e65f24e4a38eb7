"""A simulated year of conversations: killed at many points, its memory is that of an undisturbed one.

`make test` lives a month with three crashes, `make nightly` a year with thirty, which takes eight minutes.
Both end in January, so that the periods of every grain are over.
"""

import asyncio
import json
import os
import random
from collections.abc import Mapping, Sequence
from datetime import date

import pytest

from tests.faults.year.installation import Installation, Kill, open_installation
from tests.faults.year.memory_dump import (
    Answer,
    Dump,
    ask,
    dump_memory,
    make_questions,
    refresh_statistics,
)
from tests.faults.year.script import INCOGNITO_WORD, YearWriter
from tests.faults.year.steps import Step

WHOLE_YEAR = os.environ.get("CHOIR_TEST_WHOLE_YEAR") == "1"
SEED = int(os.environ.get("CHOIR_TEST_YEAR_SEED", "2"))
MONTH_KILLS, YEAR_KILLS = 3, 30
LINES = 400
"""Lines of the service in which a crash may be, counted from the beginning of a step."""
KINDS = {"note", "fact", "rule", "episode", "error", "document_chunk", "entity"}


def make_steps() -> list[Step]:
    if WHOLE_YEAR:
        return YearWriter(SEED, first=date(2020, 1, 1), days=366, sessions_per_day=0.5).write()
    month = YearWriter(
        SEED, first=date(2020, 12, 1), days=31, sessions_per_day=0.0, special_every=3
    )
    return month.write()


def plan_kills(steps: Sequence[Step]) -> dict[int, Kill]:
    """Choose the steps in which something dies: every third time Postgres, else the service."""
    chosen = random.Random(SEED)
    numbers = chosen.sample(range(len(steps)), YEAR_KILLS if WHOLE_YEAR else MONTH_KILLS)
    return {
        number: Kill(
            postgres=at % 3 == 2,
            line=chosen.randint(1, LINES),
            delay_s=chosen.choice((0.0, 0.0005, 0.002, 0.02)),
        )
        for at, number in enumerate(sorted(numbers))
    }


async def live(
    installation: Installation, steps: Sequence[Step], kills: Mapping[int, Kill]
) -> tuple[Dump, list[Answer]]:
    """Live through all steps; return the memory and its answers after a restart."""
    await installation.begin(steps[0].at)
    await installation.live(steps, kills)
    await refresh_statistics(installation.database)
    await installation.restart()
    dump = await dump_memory(installation.database)
    return dump, [await ask(installation.memory, question) for question in make_questions()]


def values(lines: Sequence[str], column: str) -> set[object]:
    return {json.loads(line).get(column) for line in lines}


def check_that_it_was_a_year(dump: Dump, answers: Sequence[Answer]) -> None:
    """Fail if the script no longer reaches what is compared."""
    assert values(dump["session"], "grain") >= {"day", "week", "month", "quarter", "year"}
    assert values(dump["session"], "tier") >= {"mid_term", "long_term_summary", "long_term_detail"}
    assert values(dump["knowledge"], "kind") == KINDS
    assert values(dump["knowledge"], "status") == {"active", "held", "retired"}
    assert values(dump["links"], "kind") == {"evidence", "supersedes", "mentions", "rolls_up"}
    assert {"autumn-model"} == values(dump["vectors"], "model")
    assert dump["feedback"] and dump["files"] and dump["sessions"]
    assert dump["queue"] == []
    assert INCOGNITO_WORD not in str(dump)
    assert sum(1 for answer in answers if answer.scores) > len(answers) // 2


@pytest.mark.nightly
@pytest.mark.timeout(0 if WHOLE_YEAR else 600)
async def test_a_year_with_crashes_leaves_the_memory_of_an_undisturbed_one() -> None:
    steps = make_steps()
    kills = plan_kills(steps)
    async with open_installation() as calm, open_installation() as harsh:
        async with asyncio.TaskGroup() as tasks:
            undisturbed = tasks.create_task(live(calm, steps, {}))
            disturbed = tasks.create_task(live(harsh, steps, kills))
        assert (calm.deaths, harsh.deaths) == (0, len(kills))
    (dump, answers), (other_dump, other_answers) = undisturbed.result(), disturbed.result()
    check_that_it_was_a_year(dump, answers)
    for table, lines in dump.items():
        assert set(other_dump[table]) - set(lines) == set(), table
        assert lines == other_dump[table], table
    differences = [
        mine.differs(theirs) for mine, theirs in zip(answers, other_answers, strict=True)
    ]
    assert [text for text in differences if text] == []
    print(f"a year of {len(steps)} steps, {len(kills)} crashes: {len(dump['session'])} documents")
