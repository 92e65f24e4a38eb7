"""Telegram through python-telegram-bot: the only folder that imports it.

Out: sending > upload > calls > pace; sending > parcels > chunks | markdown > styled. In: polling | webhook >
intake > updates. Beside them menu, presence and files; channel holds them all. pauses reads errors.
"""
