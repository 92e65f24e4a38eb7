"""Standard output and standard error that printed text cannot control with escape sequences.

`protect_streams` wraps both streams, so that plain writes pass through `escape_hidden`. `safe_console` and
the chat prompt write to the unwrapped streams: they emit escape sequences of their own, and call
`escape_hidden` on text themselves. tests/unit/choirctl/test_terminal_sink.py finds code that bypasses both.
"""

import io
import sys
from typing import TextIO, cast

from choir_common.escape_text import escape_hidden
from choirctl.output.language import tr


class SafeStream(io.TextIOBase):
    """A text stream that replaces hidden characters by visible escapes.

    It has no `buffer`, because bytes written there would bypass the replacement.
    """

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, text: str, /) -> int:
        self.raw.write(escape_hidden(tr(text)))
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
    """Wrap standard output and standard error in a `SafeStream`. Called once, by `__main__`."""
    sys.stdout = cast(TextIO, SafeStream(unwrap_stream(sys.stdout)))
    sys.stderr = cast(TextIO, SafeStream(unwrap_stream(sys.stderr)))


def unwrap_stream(stream: TextIO) -> TextIO:
    """Return the stream that a `SafeStream` wraps; any other stream unchanged.

    For writers that emit escape sequences of their own: they must call `escape_hidden` on text first.
    """
    return stream.raw if isinstance(stream, SafeStream) else stream
