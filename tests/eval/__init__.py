"""Evaluation of memory retrieval: `make eval DATA=FILE` measures recall and ranks with the
real service.

`data` contains examples made for this project; other data sets are passed by path and never copied here.
"""
