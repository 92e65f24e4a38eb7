"""One isolated browser context per running agent, and the shared browser engine.

Owns when Chromium starts and stops, and which agent has which context. Driving a page belongs to
`pages`, network restrictions to `egress`.
"""
