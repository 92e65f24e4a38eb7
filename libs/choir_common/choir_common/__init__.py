"""What two services of Choir need, and nothing that only one of them does.

Owns the words on the wire, the hash chain of the log, and the few doors to the outside (NATS, HTTP,
Postgres). Never holds policy: who may act is control's, how to think is the agent's.

Ladder, top to bottom; each layer imports only those below it:
    testing > clients > bus | http | postgres > eventlog > wire > errors | settings | telemetry > ids | clock
"""
