"""The files of the web page. `static` is served as it is: there is no build, see docs/decisions/0089."""
