"""The arbiter (spec 7.4): the only one who appends to the log, and who lets a tool run.

Commits are serial, because they never wait; work is concurrent, because each call runs in its own task under
its own locks. Never thinks, never talks to a user.
"""
