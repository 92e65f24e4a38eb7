"""Cut a piece of work at each line of some modules: the process dies there, as by `kill -9` (row R12).

Nothing is asked of the code that is cut: the lines are counted from outside, in a process of its own.
"""

import os
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Iterator
from types import FrameType

KILLED, DONE, BROKEN = 9, 0, 1
MOST = 2_000


def cuts(work: Callable[[], object], *modules: str, every: int = 1) -> Iterator[int]:
    """Yield after each cut, with its number; the last one let the work come to its end.

    `modules` are ends of file names; with `every` only each so many lines is a cut.
    """
    for number in range(1, MOST):
        killed = killed_at(number * every, work, *modules)
        yield number
        if not killed:
            return
    raise AssertionError(f"the work has more than {MOST} lines")


def killed_at(line: int, work: Callable[[], object], *modules: str) -> bool:
    """Do the work in a process that is gone at the `line`-th line of `modules`; tell whether it was."""
    child = fork()
    if child == 0:
        _do(line, work, modules)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (KILLED, DONE), f"the work itself broke in its process (exit {code})"
    return code == KILLED


def fork() -> int:
    """Fork; the other threads here (a test worker has one) hold nothing that the child asks for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def die_at(line: int, module: str, functions: Collection[str]) -> None:
    """Let this process, all its threads, be gone at the `line`-th line of these functions."""
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

    # a thread of its own: the parent's may have an event loop, which this process must not touch
    threading.settrace(trace)  # type: ignore[arg-type]
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    os._exit(BROKEN)
