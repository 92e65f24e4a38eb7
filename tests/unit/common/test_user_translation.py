"""Maps with which a mount translates the owner of files."""

import pytest

from choir_common.confinement.namespaces import LAST_ID, id_map
from choir_common.confinement.users import FIRST_UID


@pytest.mark.parametrize("owner", [0, 1, 1000, FIRST_UID - 1, FIRST_UID + 1, LAST_ID])
def test_the_owner_becomes_the_user_and_every_other_id_stays_itself(owner: int) -> None:
    lines = [tuple(map(int, line.split())) for line in id_map(owner, FIRST_UID).splitlines()]
    assert (owner, FIRST_UID, 1) in lines
    unchanged = [(first, count) for first, to, count in lines if first == to]
    assert len(unchanged) == len(lines) - 1
    # each id but the owner's and the user's own
    assert sum(count for _, count in unchanged) == LAST_ID - 1
    numbers = {number for first, count in unchanged for number in (first, first + count - 1)}
    assert not numbers & {owner, FIRST_UID}


def test_a_user_that_owns_the_files_itself_needs_no_change() -> None:
    lines = [line.split() for line in id_map(FIRST_UID, FIRST_UID).splitlines()]
    assert all(first == to for first, to, _ in lines)
    assert sum(int(count) for *_, count in lines) == LAST_ID + 1
