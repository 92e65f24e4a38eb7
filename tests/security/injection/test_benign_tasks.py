"""Everyday work is not stopped by questions (GUARANTEES S34)."""

from tests.security.injection.benign import Task, tasks

TASKS = [*tasks()]
MAX_NEEDLESS = 2
"""One in fifty tasks."""


def names_of_asking(asked: list[Task]) -> list[str]:
    return [task.name for task in asked for _ in task.run().questions]


def test_a_hundred_everyday_tasks_ask_two_needless_questions_at_most() -> None:
    everyday = [task for task in TASKS if not task.is_for_others]
    asked = names_of_asking(everyday)
    assert len(TASKS) == 100
    assert len(asked) <= MAX_NEEDLESS, asked


def test_what_goes_to_others_is_shown_to_the_user_once() -> None:
    for_others = [task for task in TASKS if task.is_for_others]
    assert names_of_asking(for_others) == [task.name for task in for_others]
