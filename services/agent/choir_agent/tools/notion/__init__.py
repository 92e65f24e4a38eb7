"""Notion client of `choir.notion.query`: API requests, and conversion of pages to and from Markdown.

Uses plain HTTP requests instead of the notion-client package. That package needs the old httpx in
addition to the httpx2 that every agent loads, and it has neither Choir's response size limit nor
the one retry after a rate limit.
"""
