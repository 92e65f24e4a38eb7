"""Standard output and standard error that nothing printed can steer, whoever wrote it.

`protect_streams` wraps both, so that plain writes pass `make_visible`. `safe_console` and the prompt of a
chat write below that: they have escape sequences of their own, and make text visible themselves. What goes
around both is found by tests/unit/choirctl/test_terminal_sink.py.
"""

import io
import sys
from typing import TextIO, cast

from choir_common.visible_text import make_visible


class SafeStream(io.TextIOBase):
    """A text stream that spells out hidden characters.

    It has no `buffer`: bytes would go around it.
    """

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, text: str, /) -> int:
        self.raw.write(make_visible(text))
        return len(text)

    def flush(self) -> None:
        self.raw.flush()

    def isatty(self) -> bool:
        return self.raw.isatty()

    def fileno(self) -> int:
        return self.raw.fileno()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.raw.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self.raw.errors


def protect_streams() -> None:
    """Put a `SafeStream` before standard output and standard error. Called once, by `__main__`."""
    sys.stdout = cast(TextIO, SafeStream(below(sys.stdout)))
    sys.stderr = cast(TextIO, SafeStream(below(sys.stderr)))


def below(stream: TextIO) -> TextIO:
    """Return the stream that a `SafeStream` writes to; another stream itself.

    For a writer with escape sequences of its own: what it prints has to be made visible before.
    """
    return stream.raw if isinstance(stream, SafeStream) else stream
