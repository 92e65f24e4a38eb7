"""The agents' ear: `GET /events`, a stream of signals (SSE, spec 12.1). Owns only the HTTP side of it."""
