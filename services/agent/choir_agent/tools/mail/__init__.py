"""Mail client of the mail tools: sending by SMTP, reading by IMAP, conversion of messages.

Never trusts a message: its text is quoted and marked with its origin. The mail libraries are
imported when a mail tool is first used (`loading`), so that an agent without mail uses less memory.
"""
