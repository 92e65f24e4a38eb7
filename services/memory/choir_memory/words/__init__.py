"""Turns text into what can be searched: tokens, their counts, and passages short enough to embed.

Pure functions over strings; never touches the database, the network or a model.

    tokens     words and CJK pairs of a text
    telling    which words of a question tell what it is about, and whom it names
    dates      the time a question asks about
    asking     how much of a text asks
    passages   a long text in pieces an embedding model takes whole
"""
