"""Owns what a proposal must look like, and how it reaches control (spec 8.10).

Never changes what this agent can do: a proposal is stored, and a human decides.
Ladder: submit | tool_proposal | config_proposal > plain_words.
"""
