"""The browser worker of Choir: one isolated context per running agent (spec 18.2).

Owns Chromium, the agents' contexts in it, and the guard every byte to and from the web passes through.
Never trusts a page: what it returns is a stranger's words, and nothing a page says or does reaches a
private address. Never leaves anything on disk.

Ladder: __main__ > app > doors > contexts > pages > blobs > guard > limits > settings.
"""
