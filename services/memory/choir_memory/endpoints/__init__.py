"""NATS endpoints of the service: the subjects that `choir_common.clients` calls.

One module per feature, each with a `table()` of its subjects; `app` serves them all. Endpoints
contain no parsing and no decisions: the bus passes checked models in, and the feature packages
answer.
"""
