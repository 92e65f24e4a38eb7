"""Client for control: the eight verbs, and the signals that control sends.

Makes no decisions; errors are raised as the classes of `choir_common.errors`. See docs/design/protocol.md.
"""
