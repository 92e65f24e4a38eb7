"""choird, the control plane: it decides, and it keeps the log.

Owns sessions, leases, the durable log, inbox, outbox, signals, configuration and the one host endpoint.
Never thinks (no inference), never speaks Telegram, never holds vectors.

Ladder: __main__ > app > doors > events | operator > rpc | bus_doors > sessions | hosttools >
    approvals | eventlog | inbox | outbox | signals >
    leases | runtimes | configuration | secrets | readiness > settings > migrations
"""

VERSION = "0.1.0"
