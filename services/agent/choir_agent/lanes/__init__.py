"""Lanes: the edge lane, which talks to the user, and the core jobs that work in the background.

A lane proposes tool calls and changes nothing except through the arbiter. It has no state besides the log: it
reads the folded state, makes the next move, and repeats. Core jobs run inside the edge lane's `run` and end
before it does. See docs/design/lanes.md.
"""
