"""Which of several control processes works: one leads, the others are its standbys.

See docs/decisions/0115-control-has-standbys-by-an-advisory-lock.md.
"""
