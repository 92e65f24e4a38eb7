"""What several kinds of tests share: a whole embedded stack, and a user who talks to it."""
