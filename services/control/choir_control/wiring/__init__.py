"""Builds the services of each package and connects them; used by `app`, which starts and stops them."""
