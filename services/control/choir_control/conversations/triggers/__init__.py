"""Triggers: work that something outside of Choir starts: signed webhooks (hooks), watched folders, mail.

What arrives is stored before anybody is told so. A worker gives it to the agent as a message or a core job.
It is text from outside: it never passes the commands of a conversation, grants nothing and decides nothing.
"""
