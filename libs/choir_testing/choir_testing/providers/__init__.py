"""Strict fakes of model providers: real HTTP servers that follow the providers' public documentation.

`provider` has the common interface, so that one test can run against all of them; each other module has the
providers of one API.
"""
