"""Mail for services: accounts, connections over IMAP, sending over SMTP, and text of messages.

Used by the agents' mail tools and by the e-mail channel. `imap` and `smtp` import the mail libraries, which
take 5 MB, so a service imports these two modules only when it uses mail.
"""
