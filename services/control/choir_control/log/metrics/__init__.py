"""choird's metrics for Prometheus; they contain neither texts nor secrets.

Owns the meaning of the `choir_*` metrics. Events are counted when they become durable, so the
counters match the log. Gauges are read from the database at each scrape.
"""
