"""Agent runtime that runs agents as confined child processes.

Owns the confinement and the lifecycle of the processes. `confine` is also run as a script between
fork and exec, so it imports only the standard library.
"""
