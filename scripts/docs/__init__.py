"""The documentation site: pages of the repository and generated reference, put together for MkDocs.

`python -m scripts.docs OUT` writes the sources of the site into a folder; `make docs` calls it. Nothing is
copied by hand: a page stands once in the repository, and references are made of the code.
"""
