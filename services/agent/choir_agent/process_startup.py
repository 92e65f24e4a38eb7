"""Process hardening, and the boot message on standard input.

The lease token in the boot message never appears in an environment variable, an argument list or a file.
"""

import ctypes
import os
import sys

from pydantic import ValidationError

from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_common.wire.rpc import AgentStartParameters
from choir_common.wire.validation_messages import error_messages

PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
MAX_BOOT_BYTES = 64_000


def harden_process() -> None:
    """Forbid other processes of our user to read our memory, and forbid gaining privileges.

    Without this, a shell that we start could read the lease token from /proc/<our pid>/mem. As the child
    subreaper we become the parent of orphan processes that a command leaves behind, and can kill them.

    Raises StartupError if the kernel refuses.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    options = ((PR_SET_DUMPABLE, 0), (PR_SET_NO_NEW_PRIVS, 1), (PR_SET_CHILD_SUBREAPER, 1))
    for option, value in options:
        if libc.prctl(option, value, 0, 0, 0) != 0:
            reason = os.strerror(ctypes.get_errno())
            raise StartupError(
                _("The kernel refused prctl({option}, {value}): {reason}.").format(
                    option=option, value=value, reason=reason
                )
            )


def read_boot_message(descriptor: int = 0) -> AgentStartParameters:
    """Read the boot message: one line of JSON that names the agent, its session and control's endpoint.

    Raises StartupError if the line is missing or invalid; the error never quotes its content.
    """
    line = b""
    while not line.endswith(b"\n") and len(line) < MAX_BOOT_BYTES:
        chunk = os.read(descriptor, 8192)
        if not chunk:
            break
        line += chunk
    if not line.strip():
        raise StartupError(
            _(
                "Standard input is empty. Control starts agents and sends one line of JSON "
                "(AgentStartParameters) there."
            )
        )
    try:
        return AgentStartParameters.model_validate_json(line)
    except ValidationError as error:
        faults = "; ".join(error_messages(error, "line"))
        # `from None`: pydantic's own message would quote the token.
        raise StartupError(
            _("The line is not a valid AgentStartParameters: {faults}.").format(faults=faults)
        ) from None
