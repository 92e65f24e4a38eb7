"""S27: the tests of `test_cgroup_limits.py` in user-mode-linux, a kernel that runs as a program.

It needs no rights, and has cgroups of version 2 on every host. It has one core and no Landlock.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
KERNEL = shutil.which("linux.uml")
TESTS = "tests/security/runtimes/test_cgroup_limits.py"
BOOT_WITHIN_S = 1_200
# The host's files are read-only there, and /tmp is empty.
INIT = f"""#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp PYTHONDONTWRITEBYTECODE=1
mount -t proc proc /proc
mount -t cgroup2 none /sys/fs/cgroup
mount -t tmpfs none /tmp
cd {ROOT}
{sys.executable} -m pytest -q -n0 -rs -p no:cacheprovider --color=no --timeout=0 {TESTS}
poweroff -f
"""


@pytest.mark.nightly
@pytest.mark.skipif(KERNEL is None, reason="LOUD: no linux.uml (Debian: user-mode-linux)")
def test_a_kernel_with_cgroups_enforces_the_limits_of_agents_and_calls() -> None:
    # not pytest's directory, which the new kernel covers
    init = ROOT / ".venv" / "uml-init"
    init.write_text(INIT)
    init.chmod(0o755)
    words = ["mem=1500M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "quiet"]
    words += [f"init={init}", "con=null", "con0=null,fd:1", "con1=null"]
    try:
        booted = subprocess.run(
            [str(KERNEL), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=BOOT_WITHIN_S,
        )
    finally:
        init.unlink()
    assert re.search(r"^4 passed in ", booted.stdout, re.MULTILINE), booted.stdout[-4_000:]
