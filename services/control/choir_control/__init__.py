"""Control plane (choird): decides what agents may do and keeps the durable log.

Owns sessions, leases, the event log, inbox, outbox, signals, approvals, configuration and the host
endpoint. It runs no model inference, has no Telegram code and stores no vectors. Import order:
`.importlinter`.
"""

from choir_common.extras import installed_version

VERSION = installed_version()
