"""Find out which routes and which commands of choirctl the tests use against a running system.

Read from the tests' own source: a route counts as tried when a call names its method and path, a command
when its words stand together in a call, a tuple or a list. What a loop or a variable makes of a path does not
count: a test that is to prove a route says which. Used by tests/contract/test_command_table.py.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1]
# those that run against real servers; a unit test proves no route
AGAINST_A_SYSTEM = ("service", "contract", "journey", "faults", "security", "compose", "support")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
ANY = "*"  # a helper of the test's own says which method
HOLE = "{}"
TEMPLATE = re.compile(r"\{\w+\}")


@dataclass(frozen=True, slots=True)
class Tried:
    """What stands in the tests."""

    requests: frozenset[tuple[str, str]]
    """Method and path, with `{}` where a value is filled in."""
    words: frozenset[tuple[str, ...]]
    """The texts of each call, tuple and list, in order."""

    def route(self, method: str, template: str) -> bool:
        """Return whether a test calls a route."""
        verb = template.removeprefix("/rpc/")
        if verb != template:
            return any(words[:1] == (verb,) for words in self.words)
        return any(
            asked in (method, ANY) and _fits(template, path) for asked, path in self.requests
        )

    def command(self, name: str) -> bool:
        """Return whether a test runs a command of choirctl."""
        wanted = tuple(name.split())
        return any(words[: len(wanted)] == wanted for words in self.words)


def read_tests() -> Tried:
    """Return what the tests against a running system try."""
    requests: set[tuple[str, str]] = set()
    words: set[tuple[str, ...]] = set()
    for folder in AGAINST_A_SYSTEM:
        for file in sorted((TESTS / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                for elements in _elements(node):
                    words.add(tuple(text for text in elements if text is not None))
                match node:
                    case ast.Call():
                        requests.update(_requests(node))
                    case ast.Assign(value=value) if (path := _text(value)) and path[0] == "/":
                        # asked for under its name, a line further
                        requests.add((ANY, path.split("?")[0]))
    return Tried(frozenset(requests), frozenset(words))


def _elements(node: ast.AST) -> Iterator[list[str | None]]:
    match node:
        case ast.Call(args=items) | ast.Tuple(elts=items) | ast.List(elts=items):
            yield [_text(item) for item in items]


def _requests(call: ast.Call) -> Iterator[tuple[str, str]]:
    """Yield what a call asks for: `client.get("/v1/…")`, `post(world, "/v1/…")`, `stream("GET", "/v1/…")`."""
    texts = [text for text in map(_text, call.args) if text is not None]
    named = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    method = next((text for text in [*texts, named.upper()] if text in METHODS), ANY)
    for text in texts:
        # one that declares a route, as a stand-in does, is no request
        if text.startswith("/") and not TEMPLATE.search(text):
            yield method, text.split("?")[0]


def _text(node: ast.AST) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) or HOLE for part in parts)
    return None


def _fits(template: str, path: str) -> bool:
    """Return whether a path is one of a template: a fixed word must stand there as it is."""
    pattern = "/".join(
        "[^/]+" if part.startswith("{") else re.escape(part) for part in template.split("/")
    )
    return re.fullmatch(pattern, path) is not None
