"""Runs the tools that need the host's side: memory, browser, the stored log (spec 12.5, EXECUTE_HOST_TOOL).

Never trusts an input to say who asks: the agent id is the lease's.
Ladder: execute > memory | browse | stored_log > takeaway | read.
"""
