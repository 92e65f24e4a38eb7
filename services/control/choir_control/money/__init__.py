"""Costs of provider calls: prices, the ledger, budgets in money, and reports.

Agents and memory report usage. This package prices it once, when the usage becomes durable.
"""
