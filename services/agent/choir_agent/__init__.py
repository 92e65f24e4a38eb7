"""The agent runtime of Choir: it thinks, proposes, and does what its own arbiter allows.

Owns one running session: lanes, the arbiter and its log, locks, tools, the model's door and working memory.
Never reaches Postgres, NATS, Docker or another service: it knows only control's endpoint.

Ladder, top to bottom; each layer imports only those below it:
    __main__ > app > lanes > arbiter > tools | models | replication > prompt > memory | locks >
    log > control > boot | settings
"""
