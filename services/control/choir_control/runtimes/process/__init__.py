"""Run agents as child processes that the kernel confines to what they were given.

Owns the confinement and the life of those processes. Never decides when an agent runs (`sessions` does), and
never reads what an agent says.

Ladder, top to bottom; each module imports only those below it:
    runtime > launch | remains > boundary | records > process_table > confine
`confine` is also run as a script between fork and exec, and imports nothing but the standard library.
"""
