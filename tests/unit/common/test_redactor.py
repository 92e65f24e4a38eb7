"""The one redactor: a secret's exact value never reaches a line, in any of its usual costumes."""

import base64
import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from choir_common.redactor import redact_secrets
from choir_common.telemetry import MASK, Redactor

CANARY = "k3y/with+odd chars=="


@pytest.mark.parametrize(
    "costume",
    [CANARY, quote(CANARY, safe=""), base64.b64encode(CANARY.encode()).decode()],
)
def test_a_learned_secret_is_masked_in_every_costume(costume: str) -> None:
    redactor = Redactor()
    redactor.add_secrets([CANARY])
    cleaned = redactor.redact(f"before {costume} after")
    assert costume.rstrip("=") not in cleaned
    assert MASK in cleaned


def test_the_password_of_a_pair_is_masked_alone_and_its_user_is_not() -> None:
    redactor = Redactor()
    redactor.add_secrets(["someone@example.org:correct-horse"])
    assert redactor.redact("LOGIN someone@example.org correct-horse") == (
        f"LOGIN someone@example.org {MASK}"
    )
    redactor.add_secrets(["other:word"])
    assert redactor.redact("a word is no password") == "a word is no password"


def test_each_line_of_a_private_key_is_masked() -> None:
    lines = ["b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ", "QyNTUxOQAAACDf9Zt1Yl0r0zvVtJ8FkJm1xYwQ"]
    key = "\n".join(["-----BEGIN OPENSSH PRIVATE KEY-----", *lines, "-----END KEY-----"])
    redactor = Redactor()
    redactor.add_secrets([key])
    assert redactor.redact(f"line: {lines[1]}") == f"line: {MASK}"
    assert redactor.redact("-----BEGIN OPENSSH PRIVATE KEY-----").startswith("-----BEGIN")


def test_a_secret_with_quotes_is_masked_in_json_too() -> None:
    redactor = Redactor()
    redactor.add_secrets(['pa"ss\\wörd'])
    for text in (
        json.dumps({"said": 'pa"ss\\wörd'}),
        json.dumps('pa"ss\\wörd', ensure_ascii=False),
    ):
        assert MASK in redactor.redact(text)


def test_a_secret_inside_a_longer_secret_leaves_no_tail() -> None:
    redactor = Redactor()
    redactor.add_secrets(["abcdef", "abcdefghij"])
    assert redactor.redact("x abcdefghij y") == f"x {MASK} y"


def test_a_traceback_in_a_log_line_is_cleaned_too() -> None:
    script = (
        "import structlog\n"
        "from choir_common.telemetry import Redactor, configure_logging\n"
        "redactor = Redactor(); redactor.add_secrets(['canary-123456'])\n"
        "configure_logging('test', 'info', redactor)\n"
        "log = structlog.get_logger()\n"
        "try:\n"
        "    raise ValueError('it was canary-123456')\n"
        "except ValueError:\n"
        "    log.exception('failed with canary-123456', deep={'a': ['canary-123456']})\n"
        "import logging; logging.getLogger('lib').error('lib says canary-123456')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert len(lines) == 2
    assert lines[0]["source"] == "test"
    assert "canary-123456" not in done.stderr
    assert "ValueError" in lines[0]["exception"]


def test_a_secret_is_out_before_a_cut_can_halve_it_in_whatever_form_it_is_quoted() -> None:
    key = "sk/canary+0123456789="
    for form in (key, quote(key, safe=""), base64.b64encode(key.encode()).decode()):
        assert (
            redact_secrets(f"refused: {form} is wrong", key, None)[:20]
            == f"refused: {MASK} is wrong"[:20]
        )


def test_there_is_one_redactor_and_nobody_else_masks() -> None:
    """A second one would know fewer forms of a secret."""
    root = Path(__file__).parents[3]
    own = root / "libs" / "choir_common" / "choir_common" / "redactor.py"
    sources = [p for part in ("libs", "services", "deploy") for p in (root / part).rglob("*.py")]
    assert own in sources
    for path in sources:
        text = path.read_text()
        if path == own or ".venv" in path.parts:
            continue
        assert MASK not in text, path
        assert ".replace(MASK" not in text and ", MASK)" not in text, path
