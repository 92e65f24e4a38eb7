"""Files on their way from a page to control: a picture taken, a file fetched.

Owns where their bytes wait, how many there may be and for how long. Never knows what they are for, nor
who fetches them: whoever holds the name of one may, once.

Ladder: shelf.
"""
