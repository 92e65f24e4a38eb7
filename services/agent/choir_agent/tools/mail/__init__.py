"""Owns the talk with mail servers: SMTP out, IMAP in, and what a message is turned into.

Never decides what is sent or read, and never trusts a message: its words are quoted with their origin.
Ladder: loading > smtp | imap > outgoing | incoming > received_folder > words > account | asking.
The libraries are loaded at the first use of a mail tool (`loading`), so that an idle agent stays small.
"""
