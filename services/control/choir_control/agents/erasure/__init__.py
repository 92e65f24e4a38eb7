"""Erasure of a person: everything of one DM, in all tables and files.

Owns the registry of the places in control's tables that can contain text of a person. The content of single
sessions is erased by `choir_control.log.retention`, documents of memory by the memory service.
"""
