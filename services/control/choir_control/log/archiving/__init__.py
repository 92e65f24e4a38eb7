"""Transfer of sessions to the memory service, page by page and oldest first.

Owns which session is transferred when and how far. Does not interpret the events: the memory
service decides what it keeps of a session.
"""
