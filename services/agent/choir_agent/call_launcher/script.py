"""Script that runs the launcher: `python -I -S script.py OPTIONS`.

An isolated interpreter does not find the agent's package by itself.
"""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])

from choir_agent.call_launcher.launcher import main

main(sys.argv[1:])
