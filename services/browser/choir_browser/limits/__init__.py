"""What one agent's pages may take from the others: turns to load, memory and processor time.

Owns the turns, and the watch over Chromium's processes, which it may slow down and end. Never touches a page
or a connection: what a page may fetch is the guard's.

Ladder: watch > rule > processes; turns; endings.
"""
