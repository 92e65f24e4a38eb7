"""Code that at least two services of Choir share: wire models, hash chain, clients and adapters.

Owns the models that cross process boundaries, the hash chain of the event log, and the adapters for NATS,
HTTP and Postgres. Contains no policy: control decides who may act, and the agent decides how to think.
"""

import gc
import sys

# Every program of Choir imports this package first. What an import makes stays until the end, and by default
# Python looks through all of it for garbage again and again meanwhile: a tenth of a service's start.
# Services (choir_common.process) and agents set thresholds of their own once they have been imported.
gc.set_threshold(50_000, 20, 20)

# Not in the confinement's script, which runs without site-packages and has no use for asyncio.
if sys.version_info < (3, 11, 4) and not sys.flags.no_site:
    from choir_common.old_timeouts import correct_timeouts

    correct_timeouts()
