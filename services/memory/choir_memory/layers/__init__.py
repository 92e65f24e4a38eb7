"""Knowledge derived from sessions or added by an operator: facts, rules, tool failures, documents.

Runs outside of the reply path, except for reminders and hints. Every derived row has links to its
sources, and its trust is not higher than theirs. Facts and rules are extracted only by a configured
language model.
"""
