"""Record docs/demo/quickstart.cast and its drawing from a real run of `choirctl up`: `make demo`.

The cast has the format of asciinema, version 2. Waits of more than a second are shortened in the drawing.
"""

import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl
from html import escape
from pathlib import Path

import pyte

from tests.support.home import make_short_directory
from tests.support.ports import free_port
from tests.support.preloaded_choirctl import CHOIRCTL

FOLDER = Path(__file__).parents[2] / "docs/demo"
CAST, DRAWING = FOLDER / "quickstart.cast", FOLDER / "quickstart.svg"
COLUMNS, ROWS = 96, 30
PATIENCE_S = 300.0
QUIET_S = 4.0
MAX_WAIT_S = 1.0
FRAME_S = 0.25
LAST_FRAME_S = 4.0
CELL_WIDTH, CELL_HEIGHT = 8.4, 18
SPINNER = re.compile("[⠀-⣿]")
LINK_TOKEN = re.compile(r"#link=[\w-]+")
SAID = ("hello", "/status")


class Recorder:
    """A program on a pseudo-terminal, with the seconds of each output."""

    def __init__(self, words: list[str], env: dict[str, str]) -> None:
        self.events: list[tuple[float, str]] = []
        self._screen, inner = pty.openpty()
        ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._begun = time.monotonic()
        self.process = subprocess.Popen(
            words, stdin=inner, stdout=inner, stderr=inner, env=env, start_new_session=True
        )
        os.close(inner)

    @property
    def shown(self) -> str:
        """Return all output so far."""
        return "".join(text for _, text in self.events)

    def until(self, text: str, *, after: int = 0) -> None:
        """Read until `text` was shown and nothing more comes."""
        deadline = time.monotonic() + PATIENCE_S
        last = time.monotonic()
        while text not in self.shown[after:] or time.monotonic() - last < QUIET_S:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{text!r} was not shown: {self.shown[-2000:]}")
            if select.select([self._screen], [], [], 0.1)[0]:
                block = os.read(self._screen, 65_536).decode(errors="replace")
                self.events.append((time.monotonic() - self._begun, block))
                last = time.monotonic()

    def say(self, text: str) -> None:
        """Type a line as a person does."""
        for letter in f"{text}\r":
            os.write(self._screen, letter.encode())
            time.sleep(0.05)

    def stop(self) -> None:
        """Interrupt the program and wait for its end."""
        self.process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            if select.select([self._screen], [], [], 0.2)[0]:
                try:
                    os.read(self._screen, 65_536)
                except OSError:
                    break
        self.process.wait(60)


def record() -> list[tuple[float, str]]:
    """Start a Choir in a new state directory, talk with it, and return what the terminal showed."""
    home = make_short_directory("choir-")
    keys = ("OPENROUTER_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")
    env = {key: value for key, value in os.environ.items() if key not in keys}
    env |= {"CHOIR_HOME": str(home), "CHOIR_HTTP_PORT": str(free_port()), "TERM": "xterm-256color"}
    recorder = Recorder([str(CHOIRCTL), "up"], env)
    try:
        recorder.until("›")
        for text in SAID:
            before = len(recorder.shown)
            recorder.say(text)
            recorder.until("main", after=before)
    finally:
        recorder.stop()
        shutil.rmtree(home, ignore_errors=True)
    events = [
        (at, LINK_TOKEN.sub("#link=…", text.replace(str(home), "~/.choir.d")))
        for at, text in recorder.events
    ]
    return [(0.0, "$ choirctl up\r\n"), *events]


def frames(events: list[tuple[float, str]]) -> list[tuple[float, list[str]]]:
    """Return what the screen showed, at most every quarter of a second, without long waits."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.Stream(screen)
    found: list[tuple[float, list[str]]] = []
    for at, text in events:
        stream.feed(text)
        shown = [SPINNER.sub("⠋", line.rstrip()) for line in screen.display]
        if found and at - found[-1][0] < FRAME_S:
            found[-1] = (found[-1][0], shown)
        elif not found or shown != found[-1][1]:
            found.append((at, shown))
    return shorten(found)


def shorten(found: list[tuple[float, list[str]]]) -> list[tuple[float, list[str]]]:
    """Return the frames with waits of a second at most."""
    shortened, last, now = [], 0.0, 0.0
    for at, shown in found:
        now += min(at - last, MAX_WAIT_S)
        last = at
        shortened.append((now, shown))
    return shortened


def draw(shown: list[tuple[float, list[str]]]) -> str:
    """Return an animated SVG that needs no script."""
    total = shown[-1][0] + LAST_FRAME_S
    width, height = COLUMNS * CELL_WIDTH + 24, ROWS * CELL_HEIGHT + 24
    rules, groups = [], []
    for number, (at, lines) in enumerate(shown):
        end = shown[number + 1][0] if number + 1 < len(shown) else total
        first, last = 100 * at / total, 100 * end / total
        rules.append(
            f"@keyframes f{number}{{0%,{max(first - 0.001, 0):.3f}%{{opacity:0}}"
            f"{first:.3f}%,{last - 0.002:.3f}%{{opacity:1}}{last - 0.001:.3f}%,100%{{opacity:0}}}}"
            f"#f{number}{{animation:f{number} {total:.1f}s step-end infinite}}"
        )
        rows = "".join(
            f'<text x="12" y="{12 + CELL_HEIGHT * (row + 0.8):.1f}">{escape(line)}</text>'
            for row, line in enumerate(lines)
            if line
        )
        # without animations, the last frame is shown
        opacity = "" if number + 1 == len(shown) else ' opacity="0"'
        groups.append(f'<g id="f{number}"{opacity}>{rows}</g>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}" '
        'font-family="ui-monospace,Menlo,Consolas,monospace" font-size="14" fill="#dde1ee" '
        'xml:space="preserve" role="img"><title>choirctl up, and a first talk</title>'
        f"<style>text{{white-space:pre}}{''.join(rules)}</style>"
        f'<rect width="{width:g}" height="{height}" rx="8" fill="#1b1e2b"/>{"".join(groups)}</svg>\n'
    )


def main() -> None:
    """Record, and write the cast and the drawing; with `--draw`, only draw the cast again."""
    if "--draw" not in sys.argv:
        head = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "choirctl up"}
        lines = [json.dumps(head)]
        lines += [json.dumps([round(at, 3), "o", text]) for at, text in record()]
        CAST.write_text("\n".join(lines) + "\n")
    events = [json.loads(line) for line in CAST.read_text().splitlines()[1:]]
    DRAWING.write_text(draw(frames([(at, text) for at, _, text in events])))


if __name__ == "__main__":
    main()
