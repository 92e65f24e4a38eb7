"""Logs on disk (spec 22.2): one file of JSON lines per source, archived when it is long or its session ended.

Owns the files below `$CHOIR_HOME/logs`: their lines, their rotation, their archive. Never decides what is
worth a line, and never keeps a secret: whoever writes hands in the redactor.

    pump      carries what a child writes from its pipe into a file
    file      appends lines; moves the file to the archive and compresses it
    prune     deletes what was archived too long ago, or too much of it
    limits    how much is kept, as config.json says
    follow    reads a file and goes on with what is appended, over any number of rotations
    line      what one line looks like
"""
