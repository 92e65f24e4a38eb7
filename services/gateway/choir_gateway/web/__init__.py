"""The files of the web page. `static` needs no build, see docs/decisions/0089."""
