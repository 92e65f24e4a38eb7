"""Keeps mirrors of the git repositories that tools, skills and identity come from (spec 6.5).

Never runs anything a repository holds, never checks one out, and never edits one. What is read of a mirror is
plain files, each checked before it is written.
Ladder: mirrors > tree | folder > git > keys > source; contents stands beside them.
"""
