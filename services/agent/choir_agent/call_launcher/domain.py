"""Domain of tool calls: the walls around each program, and what this host cannot provide of them."""

import errno
import os
import sys
from collections.abc import Mapping

from choir_common.confinement import landlock, seccomp
from choir_common.confinement.kernel import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    MS_RDONLY,
    PR_SET_DUMPABLE,
    PR_SET_NO_NEW_PRIVS,
    Kernel,
)
from choir_common.confinement.landlock import Rule
from choir_common.confinement.namespaces import map_user_to_itself
from choir_common.confinement.words import _

CALL_NAMESPACES = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC
SIGNALS_SCOPED_SINCE = 6
"""First version of Landlock that restricts signals and abstract sockets."""


class CallDomain:
    """Walls that this host supports; each call gets its own instance of them."""

    def __init__(
        self,
        *,
        rules: tuple[Rule, ...],
        abi: int,
        namespaces: int,
        filters: Mapping[bool, bytes],
        missing: tuple[str, ...],
    ) -> None:
        """Set the walls.

        `abi` is the version of Landlock, or 0 for none. `namespaces` are flags of clone, 0 where they are
        forbidden. `filters` are the seccomp filters by whether a call is offline, or an empty dict without
        support for them. `missing` names for the operator what the host does not support.
        """
        self.rules = rules
        self.abi = abi
        self.namespaces = namespaces
        self.filters = filters
        self.missing = missing

    def restrict(
        self,
        kernel: Kernel,
        *,
        offline: bool,
        readable: tuple[str, ...],
        runnable: tuple[str, ...] = (),
    ) -> None:
        """Put this process behind its walls, before it executes the program. Raises OSError."""
        kernel.join_own_keyring()
        if self.abi:
            landlock.restrict_files(kernel, self.abi, self.rules)
            if readable or runnable:
                rules = landlock.reading_rules(readable, runnable)
                landlock.restrict_files(kernel, self.abi, rules)
        if self.filters:
            seccomp.install_filter(kernel, self.filters[offline])
        elif offline:
            raise OSError(errno.ENOSYS, "this system cannot block network access of a program")


def prepare_domain(
    kernel: Kernel,
    *,
    rules: tuple[Rule, ...],
    newest_abi: int,
    want_namespaces: bool,
    user: int = 0,
) -> CallDomain:
    """Prepare this process to start calls, and find out what the host supports.

    Without `rules` a call may use all files that its user may use. With `user`, root becomes this user.
    """
    missing: list[str] = []
    if sys.platform != "linux":
        missing.append(f"{sys.platform} has no walls for tool calls")
        return CallDomain(rules=(), abi=0, namespaces=0, filters={}, missing=tuple(missing))
    abi = landlock.supported_abi(kernel, newest_abi)
    if abi == 0:
        missing.append("Landlock (tool calls can read the memory of others)")
    namespaces = 0
    if not want_namespaces:
        missing.append(_("PID namespaces (not available to this agent)"))
    else:
        try:
            _prepare_namespaces(kernel, user)
            _try_namespaces(kernel)
            # The supervisors of calls then drop what they hold with two system calls instead of forty.
            kernel.limit_capabilities()
            namespaces = CALL_NAMESPACES
        except OSError as error:
            missing.append(_("PID namespaces ({error})").format(error=error))
    if not namespaces:
        kernel.drop_capabilities(user if os.geteuid() == 0 else 0)
    if not namespaces and abi < SIGNALS_SCOPED_SINCE:
        missing.append(_("protection from signals (Landlock 6 or PID namespaces)"))
    filters = _build_filters(kernel, has_landlock=abi > 0)
    if not filters:
        missing.append(f"seccomp (this kernel has none, or no list for {kernel.machine})")
    kernel.prctl(PR_SET_NO_NEW_PRIVS, 1)
    # Calls that run beside each other must not read this process or its copies in /proc.
    kernel.prctl(PR_SET_DUMPABLE, 0)
    return CallDomain(
        rules=rules or (("/", landlock.ANY),),
        abi=abi,
        namespaces=namespaces,
        filters=filters,
        missing=tuple(missing),
    )


def _build_filters(kernel: Kernel, *, has_landlock: bool) -> dict[bool, bytes]:
    """Return the seccomp filters by whether a call is offline; empty if they are not supported.

    Built once: in each call it would take a fifth of a millisecond, most of it for copies of memory.
    """
    if not seccomp.is_supported(kernel):
        return {}
    return {
        offline: seccomp.build_filter(
            kernel.machine, offline=offline, tracing=has_landlock and not offline
        )
        for offline in (False, True)
    }


def _prepare_namespaces(kernel: Kernel, user: int) -> None:
    """Give up root's rights on the host for rights in a user namespace; a plain user has one already."""
    if os.geteuid() != 0:
        return
    # A private /proc that can be written, to map the user to itself in the new user namespace.
    kernel.call("unshare", CLONE_NEWNS)
    kernel.mount_proc(0)
    if user:
        kernel.drop_capabilities(user)
        # A change of the user makes the files in /proc root's.
        kernel.prctl(PR_SET_DUMPABLE, 1)
    uid, gid = os.geteuid(), os.getegid()
    kernel.call("unshare", CLONE_NEWUSER)
    map_user_to_itself(uid, gid)
    kernel.call("unshare", CLONE_NEWNS)


def _try_namespaces(kernel: Kernel) -> None:
    """Make all namespaces of a call once; raises OSError if that is forbidden."""
    child = kernel.fork(CALL_NAMESPACES | CLONE_NEWNET)
    if child == 0:
        code = 0
        try:
            kernel.mount_proc(MS_RDONLY)
        except OSError as error:
            code = error.errno or errno.EPERM
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(code, f"mount of /proc: {os.strerror(code)}")
