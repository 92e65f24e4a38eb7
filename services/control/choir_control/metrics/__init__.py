"""What choird counts for Prometheus (spec 22.1): never a word of a message, never a secret.

Owns the meaning of the `choir_*` figures. Events are counted as they become durable, so that the figures are
those of the log; what is waiting is asked of the database when somebody looks.

    meter         counters, told by the appender
    gauge_store   how much waits, and since when
"""
