"""Command line of the confinement, which `script.py` runs between fork and exec.

There are two layers. In the view only the given paths exist. Landlock restricts what may be done with these
paths, and to which processes signals go.
"""

import sys

from choir_common.confinement import agent_process
from choir_common.confinement.options import parse
from choir_common.confinement.words import _


def main(arguments: list[str]) -> None:
    """Run the program that the command line describes; exit with a message if that fails."""
    try:
        options = parse(arguments)
        if options.service:
            # Not needed for agents, whose start the imports would slow down.
            from choir_common.confinement import service_process  # noqa: PLC0415

            service_process.run(options)
        elif options.program:
            agent_process.run(options)
        else:
            from choir_common.confinement import host_check  # noqa: PLC0415 - as above

            host_check.run(options)
    except (OSError, ValueError, KeyError) as error:
        sys.exit(_("cannot confine the program: {error}").format(error=str(error)))
