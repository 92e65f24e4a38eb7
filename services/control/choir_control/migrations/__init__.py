"""Numbered SQL files that make and change the schema `choir_control`; applied once each, in order."""
