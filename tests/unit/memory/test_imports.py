"""What the memory service does not load: it may use 180 MB with its model."""

import subprocess
import sys

PROGRAM = """
import sys
import choir_memory.__main__
print({name for name in ("fastapi", "greenlet", "rich") if sys.modules.get(name)})
import greenlet
"""


def test_the_service_loads_no_web_framework_and_can_still_upgrade_a_schema() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    # SQLAlchemy needs greenlet, which must not stay forbidden
    assert (ended.returncode, ended.stdout) == (0, "set()\n"), ended.stderr
