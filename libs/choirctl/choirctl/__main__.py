"""Run choirctl; called by the shell. Whatever a command raises ends as one paragraph and an exit code."""

import sys

from choirctl.app import make_app, mentioned_words
from choirctl.late import load


def main() -> None:
    """Run the command line and exit."""
    try:
        make_app(mentioned_words())()
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        sys.exit(load("choirctl.failures").explain(error))


if __name__ == "__main__":
    main()
