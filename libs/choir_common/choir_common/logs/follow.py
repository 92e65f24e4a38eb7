"""Read a log and go on with what is appended, whatever becomes of the file. Called by `choirctl logs`.

A log that is archived is renamed: what is open is read to its end before the new one is taken up.
"""

import os
import time
from collections import deque
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO

LOOK_S = 0.2


def snapshot(path: Path, newest: int | None = None) -> Generator[bytes, None, None]:
    """Yield the lines of a log, the `newest` ones if given; none if there is no log.

    Raises OSError when it cannot be read.
    """
    try:
        with path.open("rb") as file:
            yield from file if newest is None else deque(file, newest)
    except FileNotFoundError:
        return


def follow(path: Path, newest: int | None = None) -> Generator[bytes, None, None]:
    """Yield what `snapshot` does, and then every line that is added, for ever.

    Raises OSError when it cannot be read.
    """
    file, rest = _opened(path), b""
    try:
        if file is not None and newest is not None:
            yield from _last(file, newest)
        while True:
            moved = file is not None and _is_other(file, path)
            for chunk in file or ():
                rest += chunk
                if rest.endswith(b"\n"):
                    yield rest
                    rest = b""
            if moved and file is not None:
                # the move was seen before the last look, so nothing of the old file is missing
                file.close()
                file = None
            if file is None:
                file = _opened(path)
            if file is None or not moved:
                time.sleep(LOOK_S)
    finally:
        if file is not None:
            file.close()


def _last(file: BinaryIO, newest: int) -> list[bytes]:
    """Return the newest whole lines; the file stands after them."""
    kept: deque[bytes] = deque(maxlen=newest)
    end = 0
    for line in file:
        if line.endswith(b"\n"):
            kept.append(line)
            end += len(line)
    file.seek(end)
    return list(kept)


def _opened(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _is_other(file: BinaryIO, path: Path) -> bool:
    """Tell whether another file, or none, stands at `path` by now."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return True
    opened = os.fstat(file.fileno())
    return (there.st_dev, there.st_ino) != (opened.st_dev, opened.st_ino)
