"""Summaries by day, week, month, quarter and year, retention, and the periodic maintenance of all agents.

Due periods are determined from the data, so a pass after downtime catches up. A period is summarised only
when it is over, and again when its sources have changed. A day is made of turns, every coarser grain of
the summaries of the finer one; each summary has links to its sources.
"""
