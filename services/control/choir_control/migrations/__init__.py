"""Numbered SQL migrations of the schema `choir_control`, each applied once, in order."""
