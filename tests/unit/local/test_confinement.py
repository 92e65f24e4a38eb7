"""Which paths the embedded stack gives to a confined service."""

import sys
from itertools import pairwise
from pathlib import Path

from choir_common.confinement import MISSING_VARIABLE
from choir_local.confinement import confine
from choir_local.home import Home
from choir_local.launch import Command

PROGRAM = (sys.executable, "-P", "-m", "choir_browser")


def listed(command: Command, *names: str) -> set[Path]:
    """Return the values of these options."""
    words = command.argv[: command.argv.index("--")]
    return {Path(value) for name, value in pairwise(words) if name in names}


def test_the_browser_service_gets_two_directories_of_the_home_and_no_other(tmp_path: Path) -> None:
    # The home lies inside a directory that the service may read otherwise.
    browsers = tmp_path / "browsers"
    home = Home(browsers / "home")
    home.make()
    home.secrets_file.write_text("{}")
    (browsers / "chromium-1").mkdir()
    command = Command(PROGRAM, {"PLAYWRIGHT_BROWSERS_PATH": str(browsers)})
    confined = confine("browser", command, home)
    own = {home.run / "browser", home.sockets / "browser"}
    assert listed(confined, "--write") == own
    read = listed(confined, "--read", "--device")
    assert browsers / "chromium-1" in read
    assert not any(
        home.root.is_relative_to(path) or path.is_relative_to(home.root) for path in read
    )
    assert confined.argv[-len(PROGRAM) :] == PROGRAM
    assert {confined.env[name] for name in ("HOME", "TMPDIR")} == {str(home.run / "browser")}


def test_temporary_files_of_an_earlier_start_are_removed(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.make()
    confine("browser", Command(PROGRAM, {}), home)
    left = home.run / "browser" / "profile"
    left.mkdir()
    confine("browser", Command(PROGRAM, {}), home)
    assert not left.exists()


def test_code_that_only_its_owner_reads_is_owned_by_the_service(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.make()
    program = tmp_path / "private" / "chromium"
    program.parent.mkdir(mode=0o700)
    program.touch()
    confined = confine("browser", Command(PROGRAM, {"CHOIR_CHROMIUM": str(program)}), home)
    owned = listed(confined, "--owned")
    if "--user" in confined.argv:
        assert program.parent in owned and Path("/usr") not in owned
    else:
        assert owned == set()


def test_chromium_that_needs_its_own_privileges_runs_unconfined_and_it_is_named(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path / "home")
    home.make()
    snap, program = tmp_path / "snap", tmp_path / "bin" / "chromium"
    snap.touch(mode=0o755)
    program.parent.mkdir()
    program.symlink_to(snap)
    environment = {"PATH": str(program.parent), "HOME": str(tmp_path)}
    unconfined = confine("browser", Command(PROGRAM, environment), home)
    assert unconfined.argv == PROGRAM
    assert "snap" in unconfined.env[MISSING_VARIABLE]
    # Playwright's own Chromium is preferred.
    (tmp_path / ".cache" / "ms-playwright" / "chromium-1").mkdir(parents=True)
    confined = confine("browser", Command(PROGRAM, environment), home)
    assert confined.argv != PROGRAM
    browsers = confined.env["PLAYWRIGHT_BROWSERS_PATH"]
    assert browsers == str(tmp_path / ".cache" / "ms-playwright")
    assert Path(browsers) in listed(confined, "--read")


def test_a_chromium_beside_the_state_directory_gives_no_right_to_its_directory(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path / "home")
    home.make()
    program = tmp_path / "chromium"
    program.touch()
    confined = confine("browser", Command(PROGRAM, {"CHOIR_CHROMIUM": str(program)}), home)
    read = listed(confined, "--read")
    assert program in read and tmp_path not in read
