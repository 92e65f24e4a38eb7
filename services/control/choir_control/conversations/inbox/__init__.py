"""Users' messages, from their arrival at a channel until an agent's log has taken them up.

Owns the tables `inbox` and `received_files`. Does not decide who may write (the configured
conversations do) and does not interpret commands (a handler is passed in).
"""
