"""Run choirctl; called by the shell. Whatever a command raises ends as one paragraph and an exit code."""

import os
import sys

from choirctl.app import make_app, mentioned_words
from choirctl.late import load
from choirctl.terminal import protect_streams


def main() -> None:
    """Run the command line and exit."""
    # closed by who called (`>&-`): what is printed goes nowhere
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123 - open until the end
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123
    protect_streams()
    try:
        make_app(mentioned_words())()
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        sys.exit(load("choirctl.failures").explain(error))


if __name__ == "__main__":
    main()
