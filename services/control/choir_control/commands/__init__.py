"""Owns the one table of commands: what each is called, what it takes, who may give it, what it does.

A row says a command once, for all ways to it: typed in a conversation, `choirctl`, and its route of `/v1`.
Never has a rule of its own about agents: a handler calls the same rooms as the operator door.
Ladder: obey > table > the handlers > target > reading > row > hands > errands | choices.
"""
