"""The operator command line of Choir."""
