"""Owns what users see of work that goes on: typing, and cards of core jobs and works, edited in place.

Nothing of it is kept but which message shows which card; what is lost comes again with the next news.
Ladder: tell > read | store.
"""
