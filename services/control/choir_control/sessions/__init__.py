"""Owns the life of sessions: start, hello, stop, crash, resume, abandonment (spec 13, 17.2).

Never runs an agent itself (the runtime does) and never reads what it thinks. Each step is one
transaction in the store; the process follows the row, not the other way round.

Ladder: boot | shut_down > mend > start | stop > crash | launch | tell > closing > store > record;
    hello, reports and roster stand beside them.
"""
