"""Sign-in of the web page: one-time links, browser sessions, and limits on attempts.

Owns the tables `web_links` and `web_sessions`; `push` has the notifications. Does not decide which routes a
session may use: `api.operator.authentication` does.
"""
