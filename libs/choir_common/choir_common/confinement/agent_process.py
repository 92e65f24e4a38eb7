"""Confined agent: this process confines itself and executes the program under the same pid.

Before Landlock 6 an agent that shares Choir's user is in a PID namespace, and its parent has the known pid.
"""

import os
import resource
import runpy
import signal
import socket
import sys
import time
from pathlib import Path

from choir_common.confinement import landlock
from choir_common.confinement.kernel import (
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    Kernel,
)
from choir_common.confinement.namespaces import enter_namespaces
from choir_common.confinement.options import ConfinementOptions
from choir_common.confinement.pid_namespace import continue_in_pid_namespace
from choir_common.confinement.restriction import PRIVATE_UMASK, restrict
from choir_common.confinement.view import SHARED_MEMORY, build_view
from choir_common.confinement.words import _

COMMON = __file__.rsplit("/", 3)[0]
"""Directory in which `choir_common` is found."""
LAUNCHER_VARIABLE = "CHOIR_CALL_LAUNCHER"
"""Environment variable by which the program gets the descriptor of its connection to the launcher."""
SIGNALS_SCOPED_SINCE = 6
"""First version of Landlock that restricts signals, in Linux 6.12."""
SIGNALS_OPEN = _(
    "Landlock 6 or PID namespaces: an agent's own process, unlike its tool calls, can send signals to this "
    "user's other processes"
)
NO_LANDLOCK = _("this system has no Landlock: the agent is confined by its file permissions only")


def limit_resources(limits: dict[str, int]) -> None:
    """Lower the resource limits; keep those that are lower already."""
    for name, limit in limits.items():
        number = getattr(resource, f"RLIMIT_{name.upper()}")
        _, hard = resource.getrlimit(number)
        value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(number, (value, value))


def join_cgroup(path: str) -> int:
    """Move this process into the agent's cgroup, and return the open directory of the cgroup."""
    Path(path, "agent", "cgroup.procs").write_text("0")
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def give_cgroup(cgroup: int, user: int) -> None:
    """Let the launcher, which becomes this user, make a cgroup for each call and start programs in it."""
    os.fchown(cgroup, user, user)
    os.chown("cgroup.procs", user, user, dir_fd=cgroup)


def start_launcher(options: ConfinementOptions, cgroup: int | None) -> None:
    """Fork the launcher of tool calls; the program gets the connection in its environment.

    It keeps the capabilities in this view that a call's namespaces need. It runs in this interpreter, because
    executing another one would drop them.
    """
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    if os.fork() != 0:
        theirs.close()
        os.environ[LAUNCHER_VARIABLE] = str(ours.fileno())
        os.set_inheritable(ours.detach(), True)
        return
    ours.close()
    die_with_parent(Kernel(), parent)
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - standard input holds the boot line
        os.dup2(nothing.fileno(), 0)
    pairs = [("--socket", str(theirs.fileno())), ("--newest-abi", str(options.newest_abi))]
    if options.view:
        # Paths that are not listed do not exist: only the names of parent directories are visible.
        pairs += [("--namespaces", "yes"), ("--list", "/"), ("--write", SHARED_MEMORY)]
        pairs += [("--user", str(options.user))]
    pairs += [(f"--{name}", str(limit)) for name, limit in options.call_limits.items()]
    if cgroup is not None:
        pairs.append(("--cgroup", str(cgroup)))
    pairs += [("--read", path) for path in options.read]
    pairs += [("--write", path) for path in options.write]
    pairs += [("--device", path) for path in options.device]
    sys.argv = [options.launcher, COMMON, *(word for pair in pairs for word in pair)]
    try:
        runpy.run_path(options.launcher)
    except OSError as error:
        warn(f"the launcher of tool calls has ended: {error.strerror}")
    finally:
        os._exit(0)


def die_with_parent(kernel: Kernel, parent: int) -> None:
    """Make the kernel kill this process when its parent ends; exit if it has ended already."""
    kernel.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("control has exited")


def confine_linux(options: ConfinementOptions) -> list[str]:
    """Apply all confinement that this kernel supports; return what it does not."""
    kernel = Kernel()
    die_with_parent(kernel, options.parent)
    # Orphaned tools become children of the agent instead of init, so that control finds them.
    kernel.prctl(PR_SET_CHILD_SUBREAPER, 1)
    # When memory runs out, the kernel kills an agent before control or Postgres.
    Path("/proc/self/oom_score_adj").write_text("500")
    # Before the view, in which there are no cgroups.
    cgroup = join_cgroup(options.cgroup) if options.cgroup else None
    missing: list[str] = []
    alone = False
    if options.view:
        enter_namespaces(kernel, options.network)
        if needs_pid_namespace(kernel, options):
            alone = continue_in_pid_namespace(kernel)
            options.parent = 0 if alone else options.parent
        try:
            build_view(kernel, options)
        except OSError as error:
            if not options.user:
                raise
            missing.append(
                _("users of their own ({error}): agents run as root").format(error=str(error))
            )
            options.user = 0
            build_view(kernel, options)
    if cgroup is not None and options.user:
        give_cgroup(cgroup, options.user)
    if options.launcher:
        start_launcher(options, cgroup)
    abi = restrict(kernel, options)
    # Again: a change of the credentials clears the signal.
    die_with_parent(kernel, options.parent)
    if abi == 0:
        warn(NO_LANDLOCK)
    if abi < SIGNALS_SCOPED_SINCE and not options.user and not alone:
        missing.append(SIGNALS_OPEN)
    return missing


def needs_pid_namespace(kernel: Kernel, options: ConfinementOptions) -> bool:
    """Return whether nothing else keeps the program from sending signals to its user's other processes.

    Otherwise an agent is spared the second process.
    """
    return (
        not options.user
        and landlock.supported_abi(kernel, options.newest_abi) < SIGNALS_SCOPED_SINCE
    )


def warn(message: str) -> None:
    """Write a log line in the agent's format."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = f'{{"timestamp":"{stamp}","level":"warning","source":"confine","message":"{message}"}}\n'
    sys.stderr.write(line)
    sys.stderr.flush()


def confine(options: ConfinementOptions) -> list[str]:
    """Confine this process; return what this host does not support."""
    # Some event loops start programs with descriptors that were never meant for them.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.umask(PRIVATE_UMASK)
    limit_resources(options.limits)
    if sys.platform != "linux":
        warn(NO_LANDLOCK)
        return []
    return confine_linux(options)


def run(options: ConfinementOptions) -> None:
    """Confine this process and execute the program."""
    confine(options)
    os.chdir(options.chdir)
    os.execv(options.program[0], options.program)  # noqa: S606 no shell is meant
