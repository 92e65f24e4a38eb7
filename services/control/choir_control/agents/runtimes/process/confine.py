"""Confinement of the current process, which then executes the agent under the same pid.

`ProcessRuntime` runs this file as a script (`python -I -S confine.py OPTIONS -- PROGRAM ARGS`). It therefore
imports only the standard library, without `argparse` and `json`, which would double its run time. Options,
each with one value:
    --parent PID    the process is killed when this one ends
    --read PATH     may be read and executed
    --write PATH    may be read, written and executed
    --device PATH   a device that may be read and written
    --limit NAME=N  a resource limit (RLIMIT_<NAME>)
    --chdir PATH    working directory of the program
    --view PATH     use a mount namespace without the rest of the file tree, built at PATH, which is in no
                    other option; fails where that is forbidden
    --network KIND  with a view: `host`, or `none` for a network that consists of a loopback interface only
    --launcher FILE the launcher of tool calls, a script that runs beside the program, outside its Landlock
                    domain, and gives each call a domain with the same rules
    --cgroup PATH   the agent's cgroup: the program runs in its child `agent`, and the launcher makes one for
                    each call
    --call-limit NAME=N  a limit on all processes of a tool call: memory (bytes), processes
    --newest-abi N  use at most this version of Landlock, as on an older kernel
Without a program it tests the confinement, prints what this host does not support of it (a JSON list), and
exits with 0. There are two layers. In the view only the given
paths exist, so that every other Unix socket of this user is out of reach (Landlock does not restrict
connecting to them). Landlock restricts what may be done with these paths, and to which processes signals go.
"""

import ctypes
import fcntl
import os
import resource
import runpy
import socket
import stat
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
SIGKILL = 9
CAPABILITY_VERSION_3 = 0x20080522
LAST_CAPABILITY = 63

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER = 0x00020000, 0x08000000, 0x10000000
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND = 2, 4, 8, 4096
MS_REC, MS_PRIVATE = 16384, 1 << 18
MNT_DETACH = 2
SYS_MOUNT_SETATTR = 442
MOUNT_ATTR_RDONLY = 1
AT_RECURSIVE, AT_FDCWD = 0x8000, -100

SYS_LANDLOCK_CREATE_RULESET, SYS_LANDLOCK_ADD_RULE, SYS_LANDLOCK_RESTRICT_SELF = 444, 445, 446
RULE_PATH_BENEATH = 1
FS_EXECUTE, FS_WRITE_FILE, FS_READ_FILE, FS_READ_DIR = 1, 2, 4, 8
FS_MAKE_CHAR, FS_MAKE_BLOCK = 1 << 6, 1 << 11
FS_TRUNCATE, FS_IOCTL_DEV = 1 << 14, 1 << 15
FS_FIRST_ABI = (1 << 13) - 1
FS_ADDED_BY_ABI = {2: 1 << 13, 3: FS_TRUNCATE, 5: FS_IOCTL_DEV}
FS_OF_FILES = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV
READ = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR
WRITE = (FS_FIRST_ABI | 1 << 13 | FS_TRUNCATE) & ~(FS_MAKE_CHAR | FS_MAKE_BLOCK)
DEVICE = FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 1, 2
LAUNCHER_VARIABLE = "CHOIR_CALL_LAUNCHER"
"""Environment variable by which the program gets the descriptor of its connection to the launcher."""
SHARED_MEMORY = "/dev/shm"  # noqa: S108 a private one, made in the view


@dataclass(slots=True)
class ConfinementOptions:
    """Parsed command line options."""

    parent: int = 0
    view: str = ""
    network: str = "host"
    chdir: str = "/"
    launcher: str = ""
    cgroup: str = ""
    newest_abi: int = sys.maxsize
    read: list[str] = field(default_factory=list)
    write: list[str] = field(default_factory=list)
    device: list[str] = field(default_factory=list)
    limits: dict[str, int] = field(default_factory=dict)
    call_limits: dict[str, int] = field(default_factory=dict)
    program: list[str] = field(default_factory=list)


def parse(arguments: list[str]) -> ConfinementOptions:
    """Parse the command line; raises ValueError or KeyError for invalid options."""
    end = arguments.index("--")
    options = ConfinementOptions(program=arguments[end + 1 :])
    lists = {"--read": options.read, "--write": options.write, "--device": options.device}
    for name, value in zip(arguments[0:end:2], arguments[1:end:2], strict=True):
        if name == "--parent":
            options.parent = int(value)
        elif name == "--view":
            options.view = value
        elif name == "--network":
            options.network = value
        elif name == "--chdir":
            options.chdir = value
        elif name == "--launcher":
            options.launcher = value
        elif name == "--cgroup":
            options.cgroup = value
        elif name == "--newest-abi":
            options.newest_abi = int(value)
        elif name in ("--limit", "--call-limit"):
            limit, _, number = value.partition("=")
            limits = options.limits if name == "--limit" else options.call_limits
            limits[limit] = int(number)
        else:
            lists[name].append(value)
    return options


class SystemCalls:
    """System calls that Python 3.11 does not offer; each raises OSError."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def call(self, name: str, *arguments: object) -> int:
        """Call a function of libc."""
        result = int(getattr(self._libc, name)(*arguments))
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{name}: {os.strerror(number)}")
        return result

    def prctl(self, option: int, first: int = 0, second: int = 0) -> None:
        """Call prctl, which changes an attribute of this process."""
        self.call("prctl", option, *map(ctypes.c_ulong, (first, second, 0, 0)))

    def mount(self, source: str, target: str, kind: str, flags: int, data: str = "") -> None:
        """Mount `source` at `target`."""
        texts = [os.fsencode(text) or None for text in (source, target, kind)]
        self.call("mount", *texts, ctypes.c_ulong(flags), os.fsencode(data) or None)

    def make_read_only(self, target: str, deep: bool) -> None:
        """Make the mount at `target` read-only, and with `deep` those below it."""
        attributes = MOUNT_ATTR_RDONLY.to_bytes(8, sys.byteorder) + bytes(24)
        flags = AT_RECURSIVE if deep else 0
        where = os.fsencode(target)
        self.call("syscall", SYS_MOUNT_SETATTR, AT_FDCWD, where, flags, attributes, 32)


def landlock_abi(kernel: SystemCalls) -> int:
    """Return the version of the Landlock interface, or 0 if the kernel has none."""
    if sys.platform != "linux":
        return 0
    try:
        return kernel.call("syscall", SYS_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    except OSError:
        return 0


def restrict_files(kernel: SystemCalls, rules: dict[str, int], newest_abi: int) -> int:
    """Restrict this process and its children to `rules`; return the Landlock version, or 0 for none."""
    abi = min(newest_abi, landlock_abi(kernel))
    if abi == 0:
        return 0
    handled_rights = FS_FIRST_ABI
    for version, right in FS_ADDED_BY_ABI.items():
        handled_rights |= right if abi >= version else 0
    scopes = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS
    fields = (handled_rights, 0, scopes)[: 1 if abi < 4 else 2 if abi < 6 else 3]
    shape = b"".join(field.to_bytes(8, sys.byteorder) for field in fields)
    size = ctypes.c_size_t(len(shape))
    ruleset = kernel.call("syscall", SYS_LANDLOCK_CREATE_RULESET, shape, size, 0)
    for path, rights in rules.items():
        add_landlock_rule(kernel, ruleset, path, rights & handled_rights)
    kernel.call("syscall", SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
    return abi


def add_landlock_rule(kernel: SystemCalls, ruleset: int, path: str, rights: int) -> None:
    """Add a rule for one path; a missing path needs no rule."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        rights &= FS_OF_FILES
    rule = rights.to_bytes(8, sys.byteorder) + descriptor.to_bytes(4, sys.byteorder)
    kernel.call("syscall", SYS_LANDLOCK_ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, 0)
    os.close(descriptor)


def enter_namespaces(kernel: SystemCalls, network: str) -> None:
    """Leave the host's mount and IPC namespaces, and with network `none` its network.

    An unprivileged user needs a user namespace for it.
    """
    kinds = CLONE_NEWNS | CLONE_NEWIPC | (CLONE_NEWNET if network == "none" else 0)
    if os.geteuid() == 0:
        kernel.call("unshare", kinds)
        return
    uid, gid = os.geteuid(), os.getegid()
    kernel.call("unshare", CLONE_NEWUSER | kinds)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        Path(f"/proc/self/{name}").write_text(text)


def enable_loopback() -> None:
    """Set the loopback interface of a new network namespace up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = b"lo".ljust(16, b"\0") + IFF_UP.to_bytes(2, sys.byteorder)
        fcntl.ioctl(control, SIOCSIFFLAGS, request.ljust(40, b"\0"))


def build_view(kernel: SystemCalls, options: ConfinementOptions) -> None:
    """Build a root directory in which only the given paths exist, and make it the process's root."""
    enter_namespaces(kernel, options.network)
    if options.network == "none":
        enable_loopback()
    kernel.mount("", "/", "", MS_REC | MS_PRIVATE)
    paths = sorted({*options.read, *options.write, *options.device})
    # Opened first, because the new root may cover some of them while it is built.
    sources = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in paths}
    root = options.view
    kernel.mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=0755")
    for path, source in sources.items():
        bind_path(kernel, path, source, root, path not in options.read)
        os.close(source)
    add_standard_devices(kernel, root)
    kernel.make_read_only(root, deep=False)
    os.chdir(root)
    # Stacks the old root below the new one, from where it is unmounted.
    kernel.call("pivot_root", b".", b".")
    kernel.call("umount2", b".", MNT_DETACH)
    os.chdir("/")


def bind_path(kernel: SystemCalls, path: str, source: int, root: str, writable: bool) -> None:
    """Bind one path into the new root, under its own name."""
    target = Path(root + path)
    if os.path.lexists(target):
        if not writable:
            return  # already visible through a directory above it
    elif os.path.islink(path):  # noqa: PTH114 /bin stays a link; its target is listed, too
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(os.readlink(path))  # noqa: PTH115
        return
    elif stat.S_ISDIR(os.fstat(source).st_mode):
        target.mkdir(parents=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    kernel.mount(f"/proc/self/fd/{source}", str(target), "", MS_BIND | MS_REC)
    if not writable:
        kernel.make_read_only(str(target), deep=True)


def add_standard_devices(kernel: SystemCalls, root: str) -> None:
    """Add what programs expect besides the devices: /dev/fd, /dev/shm, /tmp."""
    for name, target in (
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ):
        Path(root + "/dev", name).symlink_to(target)
    shared = Path(root + SHARED_MEMORY)
    shared.mkdir()
    flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
    kernel.mount("tmpfs", str(shared), "tmpfs", flags, "size=64m,mode=0700")
    usual = Path(root + "/tmp")  # noqa: S108 the place programs use without asking
    if "TMPDIR" in os.environ and not usual.exists():
        usual.symlink_to(os.environ["TMPDIR"])


def drop_capabilities(kernel: SystemCalls) -> None:
    """Drop every capability permanently, including those that root would regain at exec."""
    for capability in range(LAST_CAPABILITY + 1):
        try:
            kernel.prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            # past the kernel's last capability, or not permitted, in which case there is none to regain
            break
    kernel.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = CAPABILITY_VERSION_3.to_bytes(4, sys.byteorder) + bytes(4)
    kernel.call("capset", header, bytes(24))


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
    die_with_parent(SystemCalls(), parent)
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - standard input holds the boot line
        os.dup2(nothing.fileno(), 0)
    pairs = [("--socket", str(theirs.fileno())), ("--newest-abi", str(options.newest_abi))]
    if options.view:
        # Paths that are not listed do not exist: only the names of parent directories are visible.
        pairs += [("--namespaces", "yes"), ("--list", "/"), ("--write", SHARED_MEMORY)]
    pairs += [(f"--{name}", str(limit)) for name, limit in options.call_limits.items()]
    if cgroup is not None:
        pairs.append(("--cgroup", str(cgroup)))
    pairs += [("--read", path) for path in options.read]
    pairs += [("--write", path) for path in options.write]
    pairs += [("--device", path) for path in options.device]
    sys.argv = [options.launcher, *(word for pair in pairs for word in pair)]
    try:
        runpy.run_path(options.launcher)
    except OSError as error:
        warn(f"the launcher of tool calls has ended: {error.strerror}")
    finally:
        os._exit(0)


def die_with_parent(kernel: SystemCalls, parent: int) -> None:
    """Make the kernel kill this process when control ends; exit if it has ended already."""
    kernel.prctl(PR_SET_PDEATHSIG, SIGKILL)
    if os.getppid() != parent:
        sys.exit("control has exited")


def confine_linux(options: ConfinementOptions) -> None:
    """Apply all confinement that this kernel supports."""
    kernel = SystemCalls()
    die_with_parent(kernel, options.parent)
    # Orphaned tools become children of the agent instead of init, so that control finds them.
    kernel.prctl(PR_SET_CHILD_SUBREAPER, 1)
    # When memory runs out, the kernel kills an agent before control or Postgres.
    Path("/proc/self/oom_score_adj").write_text("500")
    # Before the view, in which there are no cgroups.
    cgroup = join_cgroup(options.cgroup) if options.cgroup else None
    if options.view:
        build_view(kernel, options)
    if options.launcher:
        start_launcher(options, cgroup)
    drop_capabilities(kernel)
    kernel.prctl(PR_SET_NO_NEW_PRIVS, 1)
    # Again: entering a user namespace changed the credentials, which clears the signal.
    die_with_parent(kernel, options.parent)
    rules = dict.fromkeys(options.read, READ)
    rules |= dict.fromkeys(options.write, WRITE) | dict.fromkeys(options.device, DEVICE)
    if options.view:
        # Paths that are not listed do not exist: only the names of parent directories are visible.
        rules |= {"/": FS_READ_DIR, SHARED_MEMORY: WRITE}
    if restrict_files(kernel, rules, options.newest_abi) == 0:
        warn("this kernel has no Landlock: the agent is confined by its file permissions only")


def warn(message: str) -> None:
    """Write a log line in the agent's format."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = f'{{"timestamp":"{stamp}","level":"warning","source":"confine","message":"{message}"}}\n'
    sys.stderr.write(line)
    sys.stderr.flush()


def main(arguments: list[str]) -> None:
    """Confine this process and execute the program."""
    options = parse(arguments)
    os.umask(0o077)
    limit_resources(options.limits)
    if sys.platform == "linux":
        confine_linux(options)
    else:
        warn("this system has no Landlock: the agent is confined by its file permissions only")
    if options.program:
        os.chdir(options.chdir)
        os.execv(options.program[0], options.program)  # noqa: S606 no shell is meant
    elif LAUNCHER_VARIABLE in os.environ:
        with socket.socket(fileno=int(os.environ[LAUNCHER_VARIABLE])) as launcher:
            sys.stdout.write(launcher.makefile().readline())


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"cannot confine the agent: {error}")
