"""Script that confines its process and then executes a program: `python -I -S script.py OPTIONS -- PROGRAM`.

An isolated interpreter does not find Choir's packages by itself.
"""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])

from choir_common.confinement.command_line import main

main(sys.argv[1:])
