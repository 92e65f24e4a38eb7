"""Static coverage of routes and choirctl commands: which of them the tests use against a running system.

Computed from the source of the tests. A route is covered if a call contains its method and path. A command is
covered if a test function runs it through a `ChoirctlRunner` with `succeeds` or `data`, which require exit
code 0; a
refused command proves nothing. Paths and words that a loop or a variable produces do not count: a test has
to name what it covers. Used by tests/contract/test_command_table.py.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1]
# folders whose tests run against real servers; a unit test does not cover a route
SYSTEM_TEST_FOLDERS = ("service", "contract", "journey", "faults", "security", "compose", "support")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
SHELL = "tests.support.shell"
ANY = "*"  # the method is unknown: a helper function of the test chooses it
PLACEHOLDER = "{}"
TEMPLATE = re.compile(r"\{\w+\}")


@dataclass(frozen=True, slots=True)
class SuiteCoverage:
    """Requests and commands found in the tests."""

    requests: frozenset[tuple[str, str]]
    """Method and path, with `{}` in place of a formatted value."""
    words: frozenset[tuple[str, ...]]
    """The string literals of each call, tuple and list, in order."""
    commands: frozenset[tuple[str, ...]]
    """The words of each choirctl command that a test runs successfully."""

    def route(self, method: str, template: str) -> bool:
        """Return whether a test calls a route."""
        verb = template.removeprefix("/rpc/")
        if verb != template:
            return any(words[:1] == (verb,) for words in self.words)
        return any(
            asked in (method, ANY) and _fits(template, path) for asked, path in self.requests
        )

    def command(self, name: str) -> bool:
        """Return whether a test runs a choirctl command successfully."""
        wanted = tuple(name.split())
        return any(words[: len(wanted)] == wanted for words in self.commands)


def collect_coverage() -> SuiteCoverage:
    """Return the requests and commands of all tests against a running system."""
    requests: set[tuple[str, str]] = set()
    words: set[tuple[str, ...]] = set()
    commands: set[tuple[str, ...]] = set()
    for folder in SYSTEM_TEST_FOLDERS:
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
                        # a path in a variable, which a later call requests
                        requests.add((ANY, path.split("?")[0]))
    return SuiteCoverage(frozenset(requests), frozenset(words), frozenset(commands))


def commands_of(tree: ast.Module) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command that a test function of a module runs successfully."""
    shell = any(isinstance(node, ast.ImportFrom) and node.module == SHELL for node in tree.body)
    for test in tree.body if shell else ():
        if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef) and test.name.startswith(
            "test_"
        ):
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
    """Yield the requests in a call: `client.get("/v1/…")`, `post(world, "/v1/…")`,
    `stream("GET", …)`."""
    texts = [text for text in map(_text, call.args) if text is not None]
    named = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    method = next((text for text in [*texts, named.upper()] if text in METHODS), ANY)
    for text in texts:
        # a path with a template declares a route, as fakes do, and is no request
        if text.startswith("/") and not TEMPLATE.search(text):
            yield method, text.split("?")[0]


def _text(node: ast.AST) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) or PLACEHOLDER for part in parts)
    return None


def _fits(template: str, path: str) -> bool:
    """Return whether a path matches a route template; parameters match any single segment."""
    pattern = "/".join(
        "[^/]+" if part.startswith("{") else re.escape(part) for part in template.split("/")
    )
    return re.fullmatch(pattern, path) is not None
