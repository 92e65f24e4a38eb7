"""Files on their way from a page to control: screenshots and downloads.

Owns where their bytes are stored, their maximum number and their lifetime. A blob's id is a secret
and allows its owner to fetch it once.
"""
