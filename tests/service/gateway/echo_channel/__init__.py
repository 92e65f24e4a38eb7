"""A channel type of a test: it keeps deliveries in memory."""
