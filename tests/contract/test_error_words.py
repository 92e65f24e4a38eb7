"""Validation messages are Choir's own: pydantic's may contain a regular expression."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYDANTICS_WORDS = re.compile(r"""\[["']msg["']\]""")
# these put them into words; `settings` lies below `wire`, and has patterns of its own
TRANSLATORS = {
    "libs/choir_common/choir_common/wire/validation_messages.py",
    "libs/choir_common/choir_common/settings.py",
}


def test_no_message_repeats_pydantics_own_words() -> None:
    found = {
        str(path.relative_to(ROOT))
        for top in ("libs", "services", "deploy")
        for path in (ROOT / top).rglob("*.py")
        if PYDANTICS_WORDS.search(path.read_text())
    }
    assert found == TRANSLATORS
