"""Control's NATS endpoints for the gateway and for memory.

Owns the handlers of the subjects; the features behind them are in other packages.
"""
