"""Owns agents' images: what stands in /choir, merged from the repositories and baked once (spec 6.5, 17.3).

Never starts an agent, and never changes an image that is there: a build makes another one and then, in one
rename, the one that the next start takes.
Ladder: foundry > build > shelf | merge > port; process and docker (and context) implement it, with bake.
"""
