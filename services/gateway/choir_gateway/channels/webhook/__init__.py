"""The generic webhook channel: signed JSON requests in both directions, for any program."""
