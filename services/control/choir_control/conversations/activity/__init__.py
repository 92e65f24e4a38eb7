"""Live activity in conversations: typing indicators and progress cards, edited in place.

Only the message id of each card is stored. Lost updates are replaced by the next ones.
"""
