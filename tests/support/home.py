"""A temporary state directory with a path that is short enough for Unix sockets."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def short_home() -> Iterator[Path]:
    """Create an empty directory and remove it afterwards."""
    home = Path(tempfile.mkdtemp(prefix="choir-"))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)
