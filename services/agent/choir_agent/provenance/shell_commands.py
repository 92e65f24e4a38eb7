"""What the text of a shell command says about the origin of its output. Pure.

It is used for commands with network in a lane that holds nothing untrusted: nobody but the owner has
influenced the model that wrote them. All other commands run offline or ask a person, whatever their text is.
"""

import re
import shlex

_LOCAL_PROGRAM_NAMES = """
    [ awk basename cat cd chmod cmp comm cp cut date df diff dirname du echo env expr false file find fold
    grep head hostname id jq ln ls md5sum mkdir mktemp mv nl nproc paste pwd realpath rg rm rmdir sed seq
    sha256sum sort stat tac tail tar tee test touch tr tree true uname uniq unzip wc which whoami xxd zip
"""
LOCAL_PROGRAMS = frozenset(_LOCAL_PROGRAM_NAMES.split())
"""Programs that open no connection."""
_LOCAL_GIT_NAMES = """
    add blame branch checkout commit config diff init log merge mv reset restore rev-parse rm show stash
    status switch tag
"""
LOCAL_GIT = frozenset(_LOCAL_GIT_NAMES.split())
_FETCHES = re.compile(
    r"://|/dev/tcp|\b(curl|wget|lynx|w3m|ssh|scp|sftp|rsync|nc|ncat|telnet|ftp|gh|"
    r"git\s+(clone|fetch|pull|submodule|ls-remote))\b"
)
_HIDES_PROGRAMS = re.compile(r"[`\n]|\$\(|<\(|>\(|\b(exec|system|popen|getline|-exec\w*)\b")
_SEPARATORS = frozenset({"&&", "||", ";", "|", "&", "(", ")", "|&", ";;"})


def is_local(command: str) -> bool:
    """Return whether a command only runs programs that open no connection, as far as can be read."""
    if _HIDES_PROGRAMS.search(command) or _FETCHES.search(command):
        return False
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return False
    simple: list[list[str]] = [[]]
    for word in words:
        if word in _SEPARATORS:
            simple.append([])
        else:
            simple[-1].append(word)
    return all(_is_local_program(command_words) for command_words in simple if command_words)


def fetches_text(command: str) -> bool:
    """Return whether a command names what it fetches: a URL, or a program that transfers data."""
    return bool(_FETCHES.search(command))


def _is_local_program(words: list[str]) -> bool:
    if words[0] == "git":
        return len(words) > 1 and words[1] in LOCAL_GIT
    return words[0] in LOCAL_PROGRAMS
