"""Find out which routes and which commands of choirctl the tests use against a running system.

Read from the tests' own source: a route counts as tried when a call names its method and path. A command of
choirctl counts when a test function has a `Shell` run it and insists on exit code 0 (`succeeds`, `data`): a
refusal proves no command. What a loop or a variable makes of a path or a word does not count: a test that is
to prove something says what. Used by tests/contract/test_command_table.py.
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
SHELL = "tests.support.shell"
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
    commands: frozenset[tuple[str, ...]]
    """What a test has choirctl do, and sees succeed."""

    def route(self, method: str, template: str) -> bool:
        """Return whether a test calls a route."""
        verb = template.removeprefix("/rpc/")
        if verb != template:
            return any(words[:1] == (verb,) for words in self.words)
        return any(
            asked in (method, ANY) and _fits(template, path) for asked, path in self.requests
        )

    def command(self, name: str) -> bool:
        """Return whether a test runs a command of choirctl and sees it succeed."""
        wanted = tuple(name.split())
        return any(words[: len(wanted)] == wanted for words in self.commands)


def read_tests() -> Tried:
    """Return what the tests against a running system try."""
    requests: set[tuple[str, str]] = set()
    words: set[tuple[str, ...]] = set()
    commands: set[tuple[str, ...]] = set()
    for folder in AGAINST_A_SYSTEM:
        for file in sorted((TESTS / folder).rglob("*.py")):
            tree = ast.parse(file.read_text())
            commands.update(commands_of(tree))
            for node in ast.walk(tree):
                for elements in _elements(node):
                    words.add(tuple(text for text in elements if text is not None))
                match node:
                    case ast.Call():
                        requests.update(_requests(node))
                    case ast.Assign(value=value) if (path := _text(value)) and path[0] == "/":
                        # asked for under its name, a line further
                        requests.add((ANY, path.split("?")[0]))
    return Tried(frozenset(requests), frozenset(words), frozenset(commands))


def commands_of(tree: ast.Module) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command that a test function of a module sees succeed."""
    shell = any(isinstance(node, ast.ImportFrom) and node.module == SHELL for node in tree.body)
    for test in tree.body if shell else ():
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
            for node in ast.walk(test):
                match node:
                    case ast.Call(func=ast.Attribute(attr="succeeds" | "data"), args=args):
                        yield tuple(_leading_texts(args))


def _leading_texts(args: list[ast.expr]) -> Iterator[str]:
    for arg in args:
        match arg:
            case ast.Starred(value=ast.Tuple(elts=inner)):
                yield from _leading_texts(inner)
            case ast.Constant(value=str(text)):
                yield text
            case _:
                return


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
