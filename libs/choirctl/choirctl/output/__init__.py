"""Printing: tables, JSON, views of records, error reports, and the one sink for terminal output."""
