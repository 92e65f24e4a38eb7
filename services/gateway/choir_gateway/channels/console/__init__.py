"""The console: a channel over HTTP and SSE, without Telegram. Its routes are in `console`."""
