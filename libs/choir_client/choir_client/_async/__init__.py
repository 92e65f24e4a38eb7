"""The async client; `scripts/sync_client.py` makes the sync one from it."""
