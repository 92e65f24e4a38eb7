"""choirctl calls the API by the operations of its client only, which are compared with OpenAPI."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2] / "libs/choirctl/choirctl"
OPERATIONS = ROOT / "api/operations.py"
RAW = {"send", "upload", "upload_file", "download", "call", "events"}
"""Methods of a connection."""
API_CLASS = ROOT / "api/control.py"


def raw_requests(path: Path) -> Iterator[str]:
    """Yield the lines with a path of the API, or with a request that is sent past the client."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Constant(value=str(text)) if text.startswith("/v1"):
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {text}"
            case ast.Call(func=ast.Attribute(attr=name, value=ast.Attribute(attr="connection"))):
                if name in RAW and path != API_CLASS:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}: connection.{name}"
            case _:
                pass


def test_no_command_sends_a_request_past_the_client() -> None:
    files = [path for path in ROOT.rglob("*.py") if path != OPERATIONS]
    assert len(files) > 50
    assert [line for path in files for line in raw_requests(path)] == []


def test_the_operations_would_be_noticed_elsewhere() -> None:
    assert len([*raw_requests(OPERATIONS)]) > 10
