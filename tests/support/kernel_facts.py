"""What the kernel says of a process, to compare one that was forked with one that was executed."""

import os
from pathlib import Path

import psutil

OF_GLIBC = 1 << 32
"""A signal that glibc handles itself, from the first thread on."""


def describe(pid: int) -> dict[str, object]:
    """Return what the kernel allows a process: user, capabilities, limits, namespaces, files."""
    process = Path("/proc", str(pid))
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
    rights = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    rest = ("NoNewPrivs", "Seccomp", "Umask", "SigIgn", "SigBlk")
    mounts = [line.split(" ", 5)[3:] for line in (process / "mountinfo").read_text().splitlines()]
    own = psutil.Process().pid
    return {
        **{name: status[name] for name in (*rights, *rest)},
        "SigCgt": int(status["SigCgt"], 16) & ~OF_GLIBC,
        "limits": (process / "limits").read_text(),
        "badness": (process / "oom_score_adj").read_text(),
        "cgroup": (process / "cgroup").read_text(),
        "mounts": sorted(map(str, mounts)),
        "apart": [namespace(pid, kind) != namespace(own, kind) for kind in ("mnt", "net", "ipc")],
        "session": os.getsid(pid) == pid,
        "files": sorted(
            target
            for path in (process / "fd").iterdir()
            if not (target := str(path.readlink())).startswith(("socket:", "pipe:"))
        ),
        "pipes": len(
            [path for path in (process / "fd").iterdir() if "pipe:" in str(path.readlink())]
        ),
        "folder": str((process / "cwd").readlink()),
    }


def namespace(pid: int, kind: str) -> Path:
    return Path("/proc", str(pid), "ns", kind).readlink()
