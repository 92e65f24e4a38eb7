"""The door to control: the eight verbs, and the signals it sends.

Never decides anything; errors come out as the classes of `choir_common.errors`.
"""
