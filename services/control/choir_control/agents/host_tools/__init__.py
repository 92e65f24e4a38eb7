"""Tools that run on the host's side: memory, browser, schedules and the stored log (EXECUTE_HOST_TOOL).

Owns their dispatch and input checks. The agent id always comes from the lease, never from the
input.
"""
