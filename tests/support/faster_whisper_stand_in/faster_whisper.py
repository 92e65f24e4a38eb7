"""The documented part of faster-whisper's class, which hears the words of `make_speech`.

As in the library, a file is read by `transcribe`, and its segments are recognised when they are iterated.
"""

import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

from tests.support.ogg import words_of

SLOW_PART_S = 0.01
"""How long the recognition of the word `slowly` takes; others take no time."""


class WhisperModel:
    """A model, and what was asked of all."""

    loaded: ClassVar[list[tuple[str, dict[str, Any]]]] = []
    parts: ClassVar[list[str]] = []
    """The words that were recognised, in the order in which that happened."""

    def __init__(self, model_size_or_path: str, **options: Any) -> None:
        assert options["local_files_only"] is True
        self.loaded.append((model_size_or_path, options))

    def transcribe(self, audio: Any, *, language: str | None, vad_filter: bool) -> tuple[Any, Any]:
        content = audio.read()
        if not content.startswith(b"OggS"):
            raise ValueError("Invalid data found when processing input")
        assert vad_filter
        segments = self._recognize(words_of(content))
        return segments, SimpleNamespace(language=language or "en", duration=2.5)

    def _recognize(self, words: str) -> Iterator[SimpleNamespace]:
        for word in words.split():
            self.parts.append(word)
            if word == "slowly":
                # read by the test that waits for it
                sys.stdout.write("slowly\n")
                sys.stdout.flush()
                time.sleep(SLOW_PART_S)
            yield SimpleNamespace(text=f" {word}")
