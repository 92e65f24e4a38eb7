"""The linker of the web page's modules: what it joins, what it leaves, and what it refuses."""

import posixpath
import re

import pytest

from choir_gateway.web.assets import STATIC
from choir_gateway.web.linker import link_modules

MODULES = {
    "app/main.js": """import {a, b as c} from "../lib/one.js";
import * as two from "./two.js";
log(a, c, two);
""",
    "app/two.js": """import "../lib/one.js";
export async function run() { return import("../later/page.js"); }
export const at = new URL("x", import.meta.url);
""",
    "lib/one.js": """import e from"./min.js";let b=1;
export const a = e;
export {b};
export{d as f}from"./min.js";""",
    "lib/min.js": "var q=2;export{q as d};export default function(){}",
    "later/page.js": """import {run} from "../app/two.js";
import {own} from "./own.js";
run(own);
""",
    "later/own.js": "export const own = 1;\n",
    "style.css": "p {}",
}


def link(**changes: str) -> dict[str, str]:
    """Link the modules above; `changes` replaces those of the folder `app`."""
    files = MODULES | {f"app/{name}.js": text for name, text in changes.items()}
    result = link_modules({path: text.encode() for path, text in files.items()}, "app/main.js")
    return {path: text.decode() for path, text in result.items()}


def test_modules_of_the_first_load_are_one_file_in_the_order_in_which_browsers_run_them() -> None:
    result = link()
    assert set(result) == {"app/main.js", "later/page.js", "later/own.js", "style.css"}
    main = result["app/main.js"]
    order = re.findall(r"^const (\$\w+) = \(", main, re.MULTILINE)
    assert order == ["$lib_min", "$lib_one", "$app_two", "$app_main"]
    assert "const {a, b: c} = $lib_one;" in main and "const two = $app_two;" in main
    assert "const {default: e} = $lib_min;" in main and "default: $default" in main
    assert "return {a, b, f: $lib_min.d};" in main
    # relative to the file in which they are now
    assert 'import("../later/page.js")' in main
    assert 'new URL("x", new URL("./two.js", import.meta.url).href)' in main


def test_modules_that_are_loaded_later_take_the_others_from_the_first_load() -> None:
    page = link()["later/page.js"]
    assert page.startswith(
        'import {$app_two} from "../app/main.js"; const {run} = $app_two;\n'
        'import {own} from "./own.js";\n'
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"main": 'import {z} from "./two.js";'}, "imports z, which app/two.js has not"),
        ({"main": 'import "./none.js";'}, "app/none.js, which is missing"),
        ({"main": "export let z = 1;"}, "a form that the linker does not know: export let"),
        ({"two": 'import "./main.js";'}, "in a circle: app/main.js -> app/two.js -> app/main.js"),
        ({"main": 'import "./two.js";\nimport("./two.js")'}, "imports app/two.js later"),
        (
            {"other": 'export {at} from "./two.js";'},
            "app/other.js has a form that the linker does not",
        ),
    ],
)
def test_what_it_does_not_understand_is_refused(changes: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        link(**changes)


def test_every_module_of_the_page_is_served_once() -> None:
    files = {
        path.relative_to(STATIC).as_posix(): path.read_bytes()
        for path in STATIC.rglob("*")
        if path.is_file()
    }
    result = link_modules(files, "app/main.js")
    first = files.keys() - result.keys()
    main = result["app/main.js"].decode()
    assert len(first) > 30 and all(f"\n// {path}\n" in f"\n{main}" for path in first)
    for path, text in result.items():
        if path.endswith(".js") and path != "app/main.js":
            addresses = re.findall(r'^import\b.*?"(\.[^"]+)";', text.decode(), re.MULTILINE)
            targets = {posixpath.normpath(f"{path}/../{it}") for it in addresses}
            assert targets <= result.keys(), path
