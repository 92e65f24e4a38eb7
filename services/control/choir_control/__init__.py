"""choird, the control plane: it decides, and it keeps the log.

Owns sessions, leases, the durable log, inbox, outbox, signals, configuration and the one host endpoint.
Never thinks (no inference), never speaks Telegram, never holds vectors.

Ladder: __main__ > app > doors > rpc | events | operator | bus_doors > readiness | hosttools | sessions >
    inbox | outbox | signals | eventlog | approvals > leases > runtimes | configuration | secrets >
    settings | migrations
"""

VERSION = "0.1.0"
