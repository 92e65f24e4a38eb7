"""Everyday work is not stopped by questions under the default policy (GUARANTEES S34, S38)."""

from collections import Counter

from choir_common.wire.policy import AgentPolicy
from tests.security.injection.benign import tasks, tasks_for_others

TASKS = [*tasks()]
MAX_NEEDLESS = 2
"""One in fifty tasks."""


def test_a_hundred_everyday_tasks_ask_two_needless_questions_at_most() -> None:
    needless = [task.name for task in TASKS for _ in task.needless()]
    assert len(TASKS) == 100
    assert len(needless) <= MAX_NEEDLESS, needless


def test_the_default_policy_asks_about_hosts_in_mail_and_nothing_else_that_is_wanted() -> None:
    wanted = Counter(task.work.__name__ for task in TASKS for _ in task.run().questions[:1])
    for task in TASKS:
        for _ in task.needless():
            wanted[task.work.__name__] -= 1
    assert +wanted == Counter({"follow_mail_link": 3})


def test_the_tasks_run_under_the_policy_of_a_new_installation() -> None:
    assert {task.run().policy for task in TASKS} == {AgentPolicy()}


def test_what_goes_to_others_is_shown_to_the_user_once() -> None:
    for task in tasks_for_others():
        assert len(task.run().questions) == 1, task.name
