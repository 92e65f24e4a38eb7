"""The drawings of `docs/concepts/`, as SVG: boxes in a grid, and arrows between them. Pure.

`python -m scripts.docs drawings` writes them again. They are files, so a reader needs neither scripts
nor a network.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape

BOX_WIDTH, BOX_HEIGHT = 150, 56
COLUMN, ROW = 210, 106
MARGIN = 20
STYLES = ('font-weight="bold"', 'font-size="11"')
FILLS = {"plain": "#f4f5fb", "core": "#dfe4ff", "person": "#fff3d6", "store": "#e3f4e6"}


@dataclass(slots=True)
class Drawing:
    """Boxes by column and row, and arrows from one to another."""

    title: str
    boxes: dict[str, tuple[float, float, tuple[str, ...], str]] = field(default_factory=dict)
    arrows: list[tuple[str, str, str]] = field(default_factory=list)

    def box(self, name: str, column: float, row: float, *lines: str, fill: str = "plain") -> None:
        """Add a box with up to two lines of text; the first is bold."""
        self.boxes[name] = (column, row, lines, fill)

    def arrow(self, start: str, end: str, label: str = "") -> None:
        """Add an arrow between two boxes."""
        self.arrows.append((start, end, label))

    def render(self) -> str:
        """Return the drawing as SVG."""
        width = max(column for column, *_ in self.boxes.values()) * COLUMN + BOX_WIDTH + 2 * MARGIN
        height = max(row for _, row, *_ in self.boxes.values()) * ROW + BOX_HEIGHT + 2 * MARGIN
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            f'width="{width:g}" font-family="sans-serif" font-size="13" role="img">',
            f"<title>{escape(self.title)}</title>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
            'markerHeight="8" orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z" '
            'fill="#445"/></marker></defs>',
            f'<rect width="{width:g}" height="{height:g}" fill="#fff"/>',
            *(self._arrow(*arrow) for arrow in self.arrows),
            *(self._box(name) for name in self.boxes),
        ]
        return "\n".join([*parts, "</svg>\n"])

    def _place(self, name: str) -> tuple[float, float]:
        column, row, *_ = self.boxes[name]
        return MARGIN + column * COLUMN, MARGIN + row * ROW

    def _box(self, name: str) -> str:
        x, y = self._place(name)
        _, _, lines, fill = self.boxes[name]
        middle = x + BOX_WIDTH / 2
        first = y + BOX_HEIGHT / 2 + (5 if len(lines) == 1 else -4)
        texts = "".join(
            f'<text x="{middle:g}" y="{first + 18 * number:g}" text-anchor="middle" '
            f'fill="#223" {STYLES[number]}>'
            f"{escape(line)}</text>"
            for number, line in enumerate(lines)
        )
        return (
            f'<rect x="{x:g}" y="{y:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="7" '
            f'fill="{FILLS[fill]}" stroke="#8890b5"/>{texts}'
        )

    def _arrow(self, start: str, end: str, label: str) -> str:
        (x1, y1), (x2, y2) = self._place(start), self._place(end)
        if abs(x1 - x2) >= COLUMN / 2:  # beside each other
            right = x2 > x1
            x1, x2 = x1 + BOX_WIDTH * right, x2 + BOX_WIDTH * (not right)
            y1, y2 = y1 + BOX_HEIGHT / 2, y2 + BOX_HEIGHT / 2
        else:
            below = y2 > y1
            y1, y2 = y1 + BOX_HEIGHT * below, y2 + BOX_HEIGHT * (not below)
            x1, x2 = x1 + BOX_WIDTH / 2, x2 + BOX_WIDTH / 2
        line = (
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="#445" '
            'marker-end="url(#tip)"/>'
        )
        if not label:
            return line
        x, y = (x1 + x2) / 2, (y1 + y2) / 2
        place = f'x="{x:g}" y="{y - 6:g}" text-anchor="middle"'
        if abs(x1 - x2) < 1:
            place = f'x="{x + 8:g}" y="{y + 4:g}"'
        return f'{line}<text {place} font-size="11" fill="#445">{escape(label)}</text>'


def services() -> Drawing:
    """Return the services and who talks with whom."""
    drawing = Drawing("The services of Choir, and who talks with whom")
    drawing.box("you", 0, 0.5, "You", "terminal, web, channels", fill="person")
    drawing.box("gateway", 1, 0.5, "gateway", "translates messages")
    drawing.box("control", 2, 0.5, "control", "decides and records", fill="core")
    drawing.box("agent", 3, 0, "agent", "one process each", fill="core")
    drawing.box("memory", 3, 1, "memory", "finds what was said")
    drawing.box("postgres", 2, 1.5, "Postgres", "log, messages, memory", fill="store")
    drawing.box("browser", 1, 1.5, "browser", "pages for agents")
    drawing.box("egress", 4, 0, "egress proxy", "the way out, adds keys")
    drawing.box("model", 5, 0, "model, web", "outside", fill="person")
    for start, end in (
        ("you", "gateway"),
        ("gateway", "control"),
        ("control", "agent"),
        ("control", "memory"),
        ("control", "postgres"),
        ("control", "browser"),
        ("agent", "egress"),
        ("egress", "model"),
    ):
        drawing.arrow(start, end)
    return drawing


def message() -> Drawing:
    """Return the way of a message to its answer."""
    drawing = Drawing("From a message to its answer")
    drawing.box("message", 0, 0, "1. message", "you write", fill="person")
    drawing.box("stored", 1, 0, "2. stored", "then acknowledged", fill="store")
    drawing.box("model", 2, 0, "3. model call", "the agent thinks")
    drawing.box("arbiter", 3, 0, "4. arbiter", "checks each tool call", fill="core")
    drawing.box("tool", 3, 1, "5. tool", "runs under its locks")
    drawing.box("log", 2, 1, "6. log", "the result is stored", fill="store")
    drawing.box("answer", 1, 1, "7. answer", "stored with the log", fill="store")
    drawing.box("sent", 0, 1, "8. delivered", "until acknowledged", fill="person")
    names = list(drawing.boxes)
    for start, end in itertools.pairwise(names):
        drawing.arrow(start, end)
    drawing.arrow("log", "model", "next step")
    return drawing


def lanes() -> Drawing:
    """Return the lanes of an agent."""
    drawing = Drawing("The lanes of an agent")
    drawing.box("you", 0, 1, "You", fill="person")
    drawing.box("edge", 1, 1, "edge lane", "answers you at once", fill="core")
    drawing.box("one", 2, 0, "core job", "reads 40 pages")
    drawing.box("two", 2, 1, "core job", "compares prices")
    drawing.box("three", 2, 2, "core job", "hangs: the others go on")
    drawing.box("locks", 3, 1, "arbiter and locks", "order their actions", fill="core")
    drawing.box("log", 4, 1, "one log", fill="store")
    drawing.arrow("you", "edge")
    for job in ("one", "two", "three"):
        drawing.arrow("edge", job)
        drawing.arrow(job, "locks")
    drawing.arrow("locks", "log")
    return drawing


def approval() -> Drawing:
    """Return how a call is decided."""
    drawing = Drawing("How a tool call is decided")
    drawing.box("call", 0, 1, "tool call", "the model proposes")
    drawing.box("policy", 1, 1, "rules", "policy, budgets, taint", fill="core")
    drawing.box("run", 2, 0, "run")
    drawing.box("ask", 2, 1, "ask a person", "shown exactly", fill="person")
    drawing.box("refuse", 2, 2, "refuse", "the model is told why")
    drawing.box("log", 3, 1, "log", "decision and result", fill="store")
    drawing.arrow("call", "policy")
    for decision in ("run", "ask", "refuse"):
        drawing.arrow("policy", decision)
        drawing.arrow(decision, "log")
    drawing.arrow("ask", "run", "yes")
    drawing.arrow("ask", "refuse", "no, or no answer")
    return drawing


DRAWINGS: dict[str, Callable[[], Drawing]] = {
    "services": services,
    "message": message,
    "lanes": lanes,
    "approval": approval,
}
