"""Options of the confinement, as words of a command line.

Each option has one value:
    --parent PID    the process is killed when this one ends
    --read PATH     may be read and executed
    --write PATH    may be read, written and executed
    --device PATH   a device that may be read and written
    --owned PATH    one of the paths above, whose files belong to the program's own user (see --user)
    --limit NAME=N  a resource limit (RLIMIT_<NAME>)
    --chdir PATH    working directory of the program
    --view PATH     use a mount namespace without the rest of the file tree, built at PATH, which is in no
                    other option; fails where that is forbidden
    --network KIND  with a view: `host`, or `none` for a network that consists of a loopback interface only
    --user UID      run as this user and group; needs root, a view, and --owned for what root owns. On disk
                    the files keep their owner: their mounts translate it
    --service NAME  the program is a service: it gets a PID namespace, and a list of system calls. What the
                    host does not support is left out, and named in an environment variable
    --launcher FILE the launcher of tool calls, a script that runs beside the program, outside its Landlock
                    domain, and gives each call a domain with the same rules
    --cgroup PATH   the agent's cgroup: the program runs in its child `agent`, and the launcher makes one for
                    each call
    --call-limit NAME=N  a limit on all processes of a tool call: memory (bytes), processes
    --newest-abi N  use at most this version of Landlock, as on an older kernel
The program and its arguments follow after `--`. Without a program the host is checked (`host_check.py`).
"""

import os
import sys
from dataclasses import dataclass, field


@dataclass(slots=True)
class ConfinementOptions:
    """Parsed command line options."""

    parent: int = 0
    view: str = ""
    network: str = "host"
    user: int = 0
    service: str = ""
    chdir: str = "/"
    launcher: str = ""
    cgroup: str = ""
    newest_abi: int = sys.maxsize
    read: list[str] = field(default_factory=list)
    write: list[str] = field(default_factory=list)
    device: list[str] = field(default_factory=list)
    owned: list[str] = field(default_factory=list)
    limits: dict[str, int] = field(default_factory=dict)
    call_limits: dict[str, int] = field(default_factory=dict)
    program: list[str] = field(default_factory=list)

    @property
    def writes_proc(self) -> bool:
        """Return whether the program may write what is its own in /proc.

        Chromium does, to make its sandbox. The files that concern the whole host are root's.
        """
        return self.service != "" and (self.user or os.geteuid()) != 0


def parse(arguments: list[str]) -> ConfinementOptions:
    """Parse the command line; raises ValueError or KeyError for invalid options."""
    end = arguments.index("--")
    options = ConfinementOptions(program=arguments[end + 1 :])
    texts = ("--view", "--network", "--service", "--chdir", "--launcher", "--cgroup")
    numbers = ("--parent", "--user", "--newest-abi")
    lists = {
        "--read": options.read,
        "--write": options.write,
        "--device": options.device,
        "--owned": options.owned,
    }
    limits = {"--limit": options.limits, "--call-limit": options.call_limits}
    for name, value in zip(arguments[0:end:2], arguments[1:end:2], strict=True):
        field_name = name[2:].replace("-", "_")
        if name in texts:
            setattr(options, field_name, value)
        elif name in numbers:
            setattr(options, field_name, int(value))
        elif name in limits:
            limit, _, number = value.partition("=")
            limits[name][limit] = int(number)
        else:
            lists[name].append(value)
    return options
