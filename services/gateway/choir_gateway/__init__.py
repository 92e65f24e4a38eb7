"""The gateway: channels to people, Telegram bots and the console (spec 19).

Owns translation: what came in becomes an InboundMessage, what goes out becomes a channel's own words. Never
routes or permits (control's), and remembers nothing that matters: the inbox and the outbox are control's.

Ladder: __main__ > app > doors > console_doors > roster > channels > settings.
"""

VERSION = "0.1.0"
