"""What an operator does with the embedded database itself: migrate, back up, restore.

Never decides what a schema holds: the services own their migrations; only those files are read.

    backup | restore   one file with everything durable, and back
    schemas            how far every schema is, and forward
    archive            the file: its parts, its checksums, its version
    reach              the database of a home, whether its stack runs or not
    store              the statements
"""
