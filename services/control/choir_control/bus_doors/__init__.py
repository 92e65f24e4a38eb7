"""The gateway's door: what control answers over the bus. Owns the subjects' handlers, nothing behind them."""
