"""Schedules: reminders and prompts at chosen times, and their runs.

Owns the calculation of due times, the tables `schedules` and `schedule_runs`, and the worker that starts
runs.
"""
