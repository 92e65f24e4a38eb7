"""HTTP routes of the gateway: the console API, webhooks of bots, and health."""
