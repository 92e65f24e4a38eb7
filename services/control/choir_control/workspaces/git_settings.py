"""Settings of a git configuration that execute nothing. Pure.

A configuration that an agent wrote is reduced to these settings, because git runs the commands of many others
for anybody who only looks at the repository (`core.fsmonitor` at `git status`). A setting that is not listed
here is removed: a new version of git may add one that executes.
"""

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass

# Names of settings as git prints them: sections and names in lower case, subsections as they are.
_HARMLESS = re.compile(
    r"""
      core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks
            |autocrlf|eol|safecrlf|abbrev|quotepath|whitespace|sharedrepository|compression|bigfilethreshold|preloadindex
            |untrackedcache|splitindex|sparsecheckout|sparsecheckoutcone|commentchar|longpaths|worktree)
    | extensions\..+
    | (user|author|committer)\.(name|email|signingkey|useconfigonly)
    | remote\..+\.(url|pushurl|fetch|push|tagopt|prune|prunetags|mirror|promisor|partialclonefilter)
    | remote\.pushdefault
    | branch\..+\.(remote|merge|rebase|pushremote|description)
    | branch\.(autosetupmerge|autosetuprebase|sort)
    | submodule\..+\.(url|active|branch|path|ignore|fetchrecursesubmodules)
    | submodule\.(active|recurse)
    | (push|pull|fetch|gc|index|status|color|advice|feature|rerere|column)\.[^.]+
    | color\.[a-z]+\.[^.]+
    | commit\.(gpgsign|cleanup|verbose|status) | tag\.(gpgsign|sort|forcesignannotated)
    | init\.defaultbranch
    | rebase\.(autosquash|autostash|updaterefs|missingcommitscheck)
    | merge\.(ff|log|conflictstyle|renames|renamelimit|stat|autostash)
    | diff\.(renames|renamelimit|algorithm|noprefix|mnemonicprefix|colormoved|context|submodule)
    | log\.(date|decorate|follow|abbrevcommit)
    | receive\.deny\w+
    | lfs\.repositoryformatversion
    """,
    re.VERBOSE | re.DOTALL,
)
# In sections that are harmless otherwise.
_EXECUTES = frozenset({"gc.recentobjectshook", "fetch.bundleuri", "pull.twohead", "pull.octopus"})
_WORKTREE = "core.worktree"


@dataclass(frozen=True, slots=True)
class GitSetting:
    """One setting: its name as `git config --list` prints it, and its value; None stands for `true`."""

    name: str
    value: str | None


def parse_settings(output: str) -> list[GitSetting]:
    """Return the settings in the output of `git config --list --null`."""
    settings = []
    for entry in output.split("\0"):
        if entry:
            name, has_value, value = entry.partition("\n")
            settings.append(GitSetting(name, value if has_value else None))
    return settings


def executes(setting: GitSetting, levels: int) -> bool:
    """Return whether a setting may make git run a command, or use files outside of the workspace.

    `levels` is the number of directories from the workspace to the one of the configuration.
    """
    name = setting.name
    if name in _EXECUTES or not _HARMLESS.fullmatch(name):
        return True
    if name == _WORKTREE:
        # a submodule's is `../../../name`; `git clean` in one outside would delete files there
        path = posixpath.normpath(setting.value or "/")
        return path.startswith("/") or path.split("/").count("..") > levels
    # `ext::command` as the address of a remote runs the command
    return name.endswith(("url", ".remote", ".pushremote")) and "::" in (setting.value or "")


def render_settings(settings: Iterable[GitSetting]) -> str:
    """Return a configuration file with these settings, in their order."""
    lines = []
    for setting in settings:
        section, _, rest = setting.name.partition(".")
        subsection, has_subsection, name = rest.rpartition(".")
        lines.append(f'[{section} "{_escape(subsection)}"]' if has_subsection else f"[{section}]")
        lines.append(
            f"\t{name}" if setting.value is None else f'\t{name} = "{_escape(setting.value)}"'
        )
    return "".join(f"{line}\n" for line in lines)


def _escape(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return text.replace("\n", "\\n").replace("\t", "\\t").replace("\b", "\\b")
