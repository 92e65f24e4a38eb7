"""Crash injection: run a function in a child process that dies at a given line, as by `kill -9`.

Used for GUARANTEES R12. The tested code needs no hooks: a trace function in the child process counts the
executed lines.
"""

import os
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import FrameType

KILLED, DONE, BROKEN = 9, 0, 1
MAX_LINES = 2_000
ROOT = Path(__file__).parents[2]
PRODUCT = ("libs", "services", "deploy")


def crash_at_each_line(work: Callable[[], object], *modules: str, every: int = 1) -> Iterator[int]:
    """Crash `work` at each executed line of `modules` in turn; yield the number of each attempt.

    The last attempt runs to the end. `modules` are suffixes of file names; `every` is the step in
    lines.
    """
    _require_modules(modules)
    for number in range(1, MAX_LINES):
        killed = crash_at_line(number * every, work, *modules)
        yield number
        if not killed:
            return
    raise AssertionError(f"the work has more than {MAX_LINES} lines")


def crash_at_line(line: int, work: Callable[[], object], *modules: str) -> bool:
    """Run `work` in a child that dies at the `line`-th executed line of `modules`; return whether it
    died."""
    child = fork()
    if child == 0:
        _do(line, work, modules)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (KILLED, DONE), f"the work itself broke in its process (exit {code})"
    return code == KILLED


def _require_modules(suffixes: Collection[str]) -> None:
    """Raise AssertionError if a suffix is of no file, so that a moved module does not empty a test."""
    files = [f"/{path.relative_to(ROOT)}" for top in PRODUCT for path in (ROOT / top).rglob("*.py")]
    unknown = [suffix for suffix in suffixes if not any(file.endswith(suffix) for file in files)]
    assert not unknown, f"no module is named {unknown}"


def fork() -> int:
    """Fork without the warning about threads: the test worker's other thread has no lock the child needs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def exit_at_line(line: int, module: str, functions: Collection[str]) -> None:
    """Make this process exit at the `line`-th executed line of these functions, in any thread."""
    _require_modules((module,))
    seen = 0

    def trace(frame: FrameType, event: str, _: object) -> object:
        nonlocal seen
        code = frame.f_code
        if code.co_name not in functions or not code.co_filename.endswith(module):
            return None
        seen += event == "line"
        if seen == line:
            os._exit(KILLED)
        return trace

    threading.settrace(trace)  # type: ignore[arg-type]
    sys.settrace(trace)  # type: ignore[arg-type]


def _do(line: int, work: Callable[[], object], modules: tuple[str, ...]) -> None:
    seen = 0

    def trace(frame: FrameType, event: str, _: object) -> object:
        nonlocal seen
        if not frame.f_code.co_filename.endswith(modules):
            return None
        seen += event == "line"
        if seen == line:
            os._exit(KILLED)
        return trace

    def run() -> None:
        try:
            work()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(BROKEN)
        os._exit(DONE)

    # in a new thread: the forked one may have a running event loop, which the child must not touch
    threading.settrace(trace)  # type: ignore[arg-type]
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    os._exit(BROKEN)
