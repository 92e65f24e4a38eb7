"""What GUARANTEES.md names as proof exists, and README.md names no test that does not."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)?::(\w+)`")
ROW = re.compile(r"^\| ([RS]\d+) .*", re.MULTILINE)
FILE = re.compile(r"`(tests/[\w/.]+)`")


def proofs() -> list[tuple[str, str, str]]:
    """Return every proof: its row, its file, its test. A test without a file is in the file before it."""
    found, text = [], (ROOT / "GUARANTEES.md").read_text()
    for row in ROW.finditer(text):
        file = ""
        for match in NAMED.finditer(row.group()):
            file = match.group(1) or file
            found.append((row.group(1), file, match.group(2)))
    return found


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, kinds)}


def test_every_proof_names_a_test_that_exists() -> None:
    missing = [
        (row, file, name)
        for row, file, name in proofs()
        if not file or not (ROOT / file).is_file() or name not in names_in(ROOT / file)
    ]
    assert missing == []


def test_every_row_has_a_proof_and_stands_once() -> None:
    rows = ROW.findall((ROOT / "GUARANTEES.md").read_text())
    assert len(rows) == len(set(rows)) >= 20
    assert {row for row, _, _ in proofs()} == set(rows)


def test_the_readme_names_no_proof_that_is_not_there() -> None:
    named = FILE.findall((ROOT / "README.md").read_text())
    assert len(named) > 5
    assert [path for path in named if not (ROOT / path).exists()] == []
