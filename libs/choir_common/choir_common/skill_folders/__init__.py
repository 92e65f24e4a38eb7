"""Skills of the published format: folders with a SKILL.md, read within limits, hashed and scanned.

choirctl imports them, control builds them into images, and agents offer them. See decision 98.
"""
