"""The rule for subjects of commits: `component: what changed`."""

import pytest

from tests.commits_check import SUBJECT


@pytest.mark.parametrize(
    "subject",
    [
        "outbox: deliver messages of one timestamp in id order",
        "leases, operations: free a lease with its operation",
        "docs/config.md: name the new setting",
    ],
)
def test_a_component_and_what_changed_are_accepted(subject: str) -> None:
    assert SUBJECT.match(subject)


@pytest.mark.parametrize(
    "subject",
    [
        "Deliver messages in order",
        "outbox deliver messages in order",
        "outbox:deliver messages",
        "Outbox: deliver messages",
        "outbox: deliver messages.",
    ],
)
def test_other_forms_are_refused(subject: str) -> None:
    assert not SUBJECT.match(subject)
