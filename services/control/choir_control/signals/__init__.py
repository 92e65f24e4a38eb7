"""Owns what control tells an agent: a durable queue, followed over SSE.

Never decides what is told. A user's message waits for whichever session holds its DM; every other
signal is for one session. Ladder: follow > store | bell | order.
"""
