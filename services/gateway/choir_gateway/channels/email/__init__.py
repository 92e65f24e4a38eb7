"""The e-mail channel: one mailbox, read over IMAP and answered over SMTP.

Owns both directions: `receiver` accepts mail of configured senders that the mail server has authenticated,
`sender` composes and sends. `channel` connects the parts. Other mail, and automatic mail, is ignored.
"""
