"""Secret values in memory, and their distribution to the sessions that need them.

Never writes a value to a log, an event, the database, an environment variable or a file.
"""
