"""What docs/memory-abilities.md says is shown by a test is: each test it names exists."""

import re

from tests.contract.test_guarantees import ROOT, names_in

TABLE = ROOT / "docs/memory-abilities.md"
PROOF = re.compile(r"`(tests/[\w/]+\.py)::(\w+)` \|$")


def test_every_ability_names_a_test_that_exists() -> None:
    rows = [line for line in TABLE.read_text().splitlines() if line.startswith("| ")]
    abilities = [row for row in rows if not row.startswith("| ability ")]
    proofs = [match.groups() for row in abilities if (match := PROOF.search(row))]
    assert len(proofs) == len(abilities) > 30
    missing = [
        (file, name)
        for file, name in proofs
        if not (ROOT / file).is_file() or name not in names_in(ROOT / file)
    ]
    assert missing == []
