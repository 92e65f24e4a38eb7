"""The console: the channel without Telegram, over HTTP and SSE. The routes are in doors.py."""
