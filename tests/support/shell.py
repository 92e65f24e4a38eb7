"""Runs choirctl commands against a running stack, as a person or a script does.

Only `succeeds` and `data` count as coverage of a command (`tests/support/coverage.py`), because both require
exit code 0. Commands run in forks of a process with choirctl loaded (`preloaded_choirctl`).
"""

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.preloaded_choirctl import run_choirctl

TIMEOUT_S = 180


@dataclass
class ChoirctlRunner:
    """Runs choirctl with CHOIR_HOME set to a stack's state directory."""

    home: Path
    env: dict[str, str] = field(default_factory=dict)

    def succeeds(self, *words: str, given: str = "") -> str:
        """Run a command that must exit 0; return its standard output."""
        done = self._run(words, given)
        assert done.returncode == 0, f"choirctl {' '.join(words)}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def data(self, *words: str) -> Any:
        """Run a command that must exit 0 with --json; return what it printed."""
        return json.loads(self.succeeds(*words, "--json"))

    def fails(self, exit_code: int, *words: str, given: str = "") -> str:
        """Run a command that must exit with `exit_code` and print no data; return its error paragraph."""
        done = self._run(words, given)
        assert done.returncode == exit_code, f"choirctl {' '.join(words)}: {done.stderr}"
        # an error must not mix with data, and must not be a stack trace
        assert done.stdout == "" and "Traceback" not in done.stderr
        return " ".join(done.stderr.split())

    def _run(self, words: tuple[str, ...], given: str) -> subprocess.CompletedProcess[str]:
        return run_choirctl(*words, home=self.home, env=self.env, given=given, timeout_s=TIMEOUT_S)
