"""The agent's process is closed to its neighbours (GUARANTEES 6)."""

import subprocess
import sys

PROBE = """
import ctypes
from choir_agent.process_startup import harden_process
harden_process()
libc = ctypes.CDLL(None)
PR_GET_DUMPABLE, PR_GET_NO_NEW_PRIVS = 3, 39
print(libc.prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), libc.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0))
"""


def test_memory_cannot_be_read_and_privileges_cannot_grow() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "1"]
