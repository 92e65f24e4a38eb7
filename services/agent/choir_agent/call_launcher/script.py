"""Script that runs the launcher: `python -I -S script.py COMMON OPTIONS`.

An isolated interpreter does not find Choir's packages by itself. COMMON is the directory of `choir_common`.
"""

import sys

sys.path.insert(0, sys.argv.pop(1))
sys.path.insert(0, __file__.rsplit("/", 3)[0])

from choir_agent.call_launcher.launcher import main

main(sys.argv[1:])
