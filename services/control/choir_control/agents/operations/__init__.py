"""Operations: work that takes longer than a request, such as builds, updates, resets and backups.

Each operation is a row with a status. One that is cut off by an exit of choird is marked `interrupted` at the
next startup; the work itself must leave either the old or the new state.
"""
