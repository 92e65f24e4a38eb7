"""Log files: one file of JSON lines per source, rotated by length and at the end of a session.

Owns the files below `$CHOIR_HOME/logs`: line format, rotation and archive. Does not decide what is logged,
and never stores a secret: the writer passes in the redactor.
"""
