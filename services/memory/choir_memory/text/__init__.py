"""Text processing for search: tokens, stop words, dates in questions, passages and excerpts.

Pure functions over strings, without access to the database, the network or a model.
"""
