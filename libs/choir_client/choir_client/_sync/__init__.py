"""The sync client, made from the async one by `scripts/sync_client.py`: change that one."""
