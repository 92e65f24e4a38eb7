"""A stranger's way: from a bare container to the first answer with the wheel, timed; and away again.

Needs a Docker engine and a package index. Nightly only: pip takes a minute.
"""

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from scripts.wheel import build_wheel
from tests.compose.containers import engine_answers

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]
IMAGES = {
    "python:3.13-slim-trixie": "",
    # the image has no Python, and Debian's Python has its venv in a package of its own
    "debian:trixie-slim": "apt-get -q update; apt-get -qy install --no-install-recommends python3-venv",
}
"""Bare images, and what a stranger installs there first."""
LIMIT_MB = 450
"""The environment after the first answer: with pip itself, and bytecode of what runs."""
STEPS = """
set -eu
start=$(date +%s)
PREPARE >/dev/null
echo "prepared $(($(date +%s) - start)) s"
! command -v cc gcc
python3 -m venv /opt/choir
/opt/choir/bin/pip install --quiet --no-compile --find-links /dist choir-agents
echo "installed $(($(date +%s) - start)) s, $(du -sm /opt/choir | cut -f1) MB"
cd /
choirctl=/opt/choir/bin/choirctl
$choirctl up --detach
echo "up $(($(date +%s) - start)) s"
echo "answer $($choirctl chat -m hello | tr '\\n' ' ')"
echo "answered $(($(date +%s) - start)) s"
echo "size $(du -sm /opt/choir | cut -f1)"
test -e /opt/choir/lib/python3.13/site-packages/choir_agent/__pycache__
test -s /opt/choir/share/choir/docs/install.md
$choirctl doctor | grep -F "choir-agents[offline]"
$choirctl status -v | grep -F "choir-agents[browser]"
$choirctl service install --dry-run | grep -F "ExecStart="
for shell in bash zsh fish; do
    _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION=1 $choirctl --show-completion $shell | grep -q choirctl
    echo "completion $shell"
done
$choirctl uninstall --purge --yes
test ! -e /root/.choir.d && test ! -e $choirctl && echo removed
"""


@pytest.mark.parametrize("image", IMAGES)
def test_a_wheel_is_installed_answers_and_is_removed_in_a_bare_container(
    tmp_path: Path, image: str
) -> None:
    if reason := engine_answers():
        pytest.skip(f"no Docker engine: {reason}")
    uv = shutil.which(ROOT / ".tools/bin/uv") or "uv"
    build_wheel(ROOT, version="0.1.0.dev1", out=tmp_path, uv=uv)
    start = time.monotonic()
    words = ["docker", "run", "--rm", "--init", "--volume", f"{tmp_path}:/dist:ro", image]
    steps = STEPS.replace("PREPARE", IMAGES[image] or ":")
    done = subprocess.run(
        [*words, "sh", "-c", steps], capture_output=True, text=True, timeout=1500, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    rows = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    times = ", ".join(
        f"{name} {rows[name]}" for name in ("prepared", "installed", "up", "answered")
    )
    print(f"{image}: {times}; {time.monotonic() - start:.0f} s in all, {rows['size']} MB")
    assert "You said" in rows["answer"] or rows["answer"].strip()
    assert int(rows["size"]) <= LIMIT_MB
    assert done.stdout.splitlines()[-1] == "removed"
