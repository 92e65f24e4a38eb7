"""The agents' signal stream at `GET /events` (SSE). Owns the HTTP part alone; see `signals`."""
