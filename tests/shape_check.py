"""Check of the code's structure: sizes of modules and functions, names, no import cycle. Exits 1 on a fault.

Run by `make check`. The limits and their reasons are in CONTRIBUTING.md. The size of
the largest import cycle is the best single measure of a tangled code base, so any cycle fails.
"""

import ast
import re
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "choir_common": "libs/choir_common",
    "choir_files": "libs/choir_files",
    "choir_models": "libs/choir_models",
    "choir_client": "libs/choir_client",
    "choir_testing": "libs/choir_testing",
    "choirctl": "libs/choirctl",
    "choir_local": "deploy/local",
    "choir_control": "services/control",
    "choir_agent": "services/agent",
    "choir_memory": "services/memory",
    "choir_gateway": "services/gateway",
    "choir_browser": "services/browser",
    "choir_egress": "services/egress",
}
MAX_MODULE_LINES = 500
P90_MODULE_LINES = 300
MEDIAN_MODULE_LINES = 120
MAX_FUNCTION_LINES = 50
MEDIAN_FUNCTION_LINES = 12
MAX_POSITIONAL = 3
"""Parameters of a constructor that may be passed by position, without `self`."""
BANNED_NAMES = re.compile(
    r"^(utils?|helpers?|common|misc|base|impl|managers?|processors?|tools?_?utils?)$"
)
BANNED_TEXT = {
    r"\bTYPE_CHECKING\b": "a TYPE_CHECKING block hides a cycle",
    r"\b(TODO|FIXME|XXX)\b": "finish it or write it into an issue",
    r"\bNotImplementedError\b": "a stub is a defect",
}


@dataclass(frozen=True, slots=True)
class FunctionLength:
    """A function or method, and its length in lines."""

    place: str
    lines: int


def modules() -> Iterator[Path]:
    """Yield the modules of the project, without tests."""
    for folder in PACKAGES.values():
        for package in (ROOT / folder).glob("choir*"):
            yield from sorted(package.rglob("*.py"))


def functions(path: Path, tree: ast.Module) -> Iterator[FunctionLength]:
    """Yield every function of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            yield FunctionLength(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", length)


def check_constructors(path: Path, tree: ast.Module) -> Iterator[str]:
    """Yield the constructors with too many parameters that may be passed by position."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            positional = len(node.args.posonlyargs) + len(node.args.args) - 1
            if positional > MAX_POSITIONAL:
                yield (
                    f"{path.relative_to(ROOT)}:{node.lineno}: {positional} positional parameters "
                    f"(at most {MAX_POSITIONAL}); make them keyword-only with `*`"
                )


def check_module(path: Path, text: str) -> Iterator[str]:
    """Yield the faults in one module's size, name and text."""
    where = path.relative_to(ROOT)
    lines = text.count("\n")
    if lines > MAX_MODULE_LINES:
        yield f"{where}: {lines} lines (at most {MAX_MODULE_LINES})"
    name = path.parent.name if path.stem == "__init__" else path.stem
    if BANNED_NAMES.match(name):
        yield (
            f"{where}: the name `{name}` is not specific; use a noun for the data or a verb for the "
            "action"
        )
    if text.strip() and not text.lstrip().startswith(('"""', "#!")):
        yield f"{where}: no module docstring"
    for pattern, reason in BANNED_TEXT.items():
        # the annotations of a late import (ruff's PLC0415) need the block
        if "TYPE_CHECKING" in pattern and (
            "# noqa: PLC0415" in text or "import_with_stubs" in text
        ):
            continue
        for found in re.finditer(pattern, text):
            line = text.count("\n", 0, found.start()) + 1
            yield f"{where}:{line}: {found.group(0)}: {reason}"


def find_cycles() -> Iterator[str]:
    """Yield an import cycle between modules, if there is one in all packages together."""
    graph = grimp.build_graph(*PACKAGES)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        yield "import cycle: " + " > ".join(error.args[1])


def percentile(values: list[int], share: float) -> int:
    """Return the percentile of `values` at `share` (0 to 1)."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def main() -> int:
    """Print the figures and every fault; return the exit code."""
    faults: list[str] = []
    sizes: list[int] = []
    lengths: list[int] = []
    for path in modules():
        text = path.read_text()
        sizes.append(text.count("\n"))
        faults += check_module(path, text)
        tree = ast.parse(text)
        faults += check_constructors(path, tree)
        for function in functions(path, tree):
            lengths.append(function.lines)
            if function.lines > MAX_FUNCTION_LINES:
                faults.append(
                    f"{function.place}: {function.lines} lines (at most {MAX_FUNCTION_LINES})"
                )
    faults += find_cycles()
    median, p90 = int(statistics.median(sizes)), percentile(sizes, 0.9)
    function_median = int(statistics.median(lengths))
    if median > MEDIAN_MODULE_LINES or p90 > P90_MODULE_LINES:
        faults.append(f"modules are too long: median {median}, p90 {p90} lines")
    if function_median > MEDIAN_FUNCTION_LINES:
        faults.append(f"functions are too long: median {function_median} lines")
    print(
        f"shape: {len(sizes)} modules (median {median}, p90 {p90}, longest {max(sizes)} lines), "
        f"{len(lengths)} functions (median {function_median}, longest {max(lengths)})"
    )
    for fault in faults:
        print(f"shape: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
