"""Origins of what lanes and files hold, and the taint rule: when a call that sends data out asks a person.

Pure. See docs/design/provenance.md.
"""
