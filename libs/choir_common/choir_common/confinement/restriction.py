"""Restriction of a process to the paths of its options, for good."""

from choir_common.confinement import landlock
from choir_common.confinement.kernel import PR_SET_NO_NEW_PRIVS, Kernel
from choir_common.confinement.options import ConfinementOptions
from choir_common.confinement.view import PROC, SHARED_MEMORY

PRIVATE_UMASK = 0o077


def restrict(kernel: Kernel, options: ConfinementOptions) -> int:
    """Give up all rights but those on the given paths; return the Landlock version, or 0 for none."""
    kernel.join_own_keyring()
    kernel.prctl(PR_SET_NO_NEW_PRIVS, 1)
    rules = dict.fromkeys(options.read, landlock.READ)
    rules |= dict.fromkeys(options.write, landlock.WRITE)
    rules |= dict.fromkeys(options.device, landlock.DEVICE)
    if options.view:
        # Paths that are not listed do not exist: only the names of parent directories are visible.
        rules |= {"/": landlock.FS_READ_DIR, SHARED_MEMORY: landlock.WRITE}
    if options.writes_proc:
        rules[PROC] = landlock.READ | landlock.FS_WRITE_FILE
    abi = landlock.supported_abi(kernel, options.newest_abi)
    if abi:
        landlock.restrict_files(kernel, abi, rules.items())
    kernel.drop_capabilities(options.user)
    return abi
