"""Make the sync client from the async one: `choir_client/_sync` from `choir_client/_async`, word by word.

`python -m scripts.sync_client` writes the files again; `tests/unit/choir_client/test_sync_client.py` compares
them. `connection.py` is written by hand in both. See decision 97.
"""

import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "libs/choir_client/choir_client"
BY_HAND = frozenset({"connection.py"})
WORDS = {
    "AsyncGenerator": "Generator",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "aclose": "close",
    "aclosing": "closing",
    "asyncio": "time",
    "_async": "_sync",
}
DROPPED = frozenset({"async", "await"})
_CLASS = re.compile(r"\bAsync(?=[A-Z])")


def convert(source: str) -> str:
    """Return the sync form of an async module."""
    lines = source.splitlines(keepends=True)
    # from the end, so that the columns of earlier tokens stay right
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(source).readline))):
        new = _replacement(token)
        if new is None or token.start[0] != token.end[0]:
            continue
        row, begin, end = token.start[0] - 1, token.start[1], token.end[1]
        if not new:
            end += 1  # the space after the keyword
        lines[row] = lines[row][:begin] + new + lines[row][end:]
    text = "".join(lines).replace("import time\nimport time\n", "import time\n")
    return text.replace(
        "The async client; `scripts/sync_client.py` makes the sync one from it.", NOTE
    )


NOTE = "The sync client, made from the async one by `scripts/sync_client.py`: change that one."


def _replacement(token: tokenize.TokenInfo) -> str | None:
    if token.type == tokenize.NAME:
        if token.string in DROPPED:
            return ""
        return WORDS.get(token.string, _CLASS.sub("", token.string))
    if token.type == tokenize.STRING:
        return _CLASS.sub("", token.string)
    return None


def sync_modules() -> dict[str, str]:
    """Return the text of each module of the sync client by its file name."""
    return {
        path.name: _format(convert(path.read_text()))
        for path in sorted((PACKAGE / "_async").glob("*.py"))
        if path.name not in BY_HAND
    }


def _format(text: str) -> str:
    """Format as `make check` asks, because shorter words change where lines break."""
    ruff = [str(Path(sys.executable).parent / "ruff")]
    name = ["--stdin-filename", str(PACKAGE / "_sync/module.py"), "-"]
    text = _pipe([*ruff, "check", "--select", "I", "--fix", "--quiet", *name], text)
    return _pipe([*ruff, "format", "--quiet", *name], text)


def _pipe(command: list[str], text: str) -> str:
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    for file_name, content in sync_modules().items():
        (PACKAGE / "_sync" / file_name).write_text(content)
