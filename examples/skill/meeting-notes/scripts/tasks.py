"""Print the lines of a file that look like tasks: with a day, a date or a word such as "todo"."""

import re
import sys
from pathlib import Path

TASK = re.compile(
    r"\b(todo|by|until|\d{4}-\d\d-\d\d|(mon|tues|wednes|thurs|fri|satur|sun)day)\b", re.I
)

for number, line in enumerate(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines(), start=1):
    if TASK.search(line):
        print(f"{number}: {line.strip()}")
