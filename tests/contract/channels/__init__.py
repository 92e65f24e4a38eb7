"""The contract of a channel: `test_channels.py` runs against each type by its harness."""
