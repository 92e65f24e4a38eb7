"""The files of the web page: how they are served, how large they are, and that their parts fit together."""

import gzip
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from choir_common.errors import ChoirError
from choir_common.http.responses import render_choir_error
from choir_gateway.api.web import make_web_router
from choir_gateway.web.assets import STATIC, WebAssets
from scripts.vendor import LOCK, ROOT, WEB, file_hashes, lock_text

MAX_FIRST_LOAD = 200_000
OWN = [p for p in sorted(STATIC.rglob("*")) if p.is_file() and "vendor" not in p.parts]
ADDRESS = re.compile(r"""(?:href|src)="([^"]+)\"""")


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    app = FastAPI()
    app.add_exception_handler(ChoirError, render_choir_error)
    app.include_router(make_web_router(WebAssets()))
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://choir/web/") as made:
        yield made


async def test_the_first_load_is_small_and_every_address_in_the_page_is_served(
    client: httpx2.AsyncClient,
) -> None:
    page = await client.get("")
    addresses = ADDRESS.findall(page.text)
    # each request of the first load waits for others, see the decision 89
    assert 3 < len(addresses) <= 6
    assert not any(it.startswith(("/", "http")) for it in addresses)
    base = next(it for it in addresses if "/icons/" in it).partition("/icons/")[0]
    total = len(gzip.compress(page.content))
    for address in {*addresses, f"{base}/locales/en.json"}:
        answer = await client.get(address)
        assert answer.status_code == 200, address
        total += int(answer.headers["content-length"])
    assert 50_000 < total < MAX_FIRST_LOAD


async def test_browsers_keep_files_by_their_digest_and_ask_for_the_page_again(
    client: httpx2.AsyncClient,
) -> None:
    page = await client.get("")
    assert page.headers["cache-control"] == "no-cache"
    again = await client.get("", headers={"If-None-Match": page.headers["etag"]})
    assert again.status_code == 304 and again.content == b""
    style = next(it for it in ADDRESS.findall(page.text) if it.endswith(".css"))
    kept = await client.get(style)
    assert "immutable" in kept.headers["cache-control"]
    assert kept.headers["content-encoding"] == "gzip"
    plain = await client.get(style, headers={"Accept-Encoding": "identity"})
    assert plain.text == kept.text and "content-encoding" not in plain.headers
    older = await client.get(re.sub(r"assets/\w+/", "assets/0/", style))
    assert older.status_code == 200 and older.headers["cache-control"] == "no-cache"
    for path in ("assets/0/nothing.js", "assets/0/%2e%2e/assets.py", "assets/0/index.html"):
        assert (await client.get(path)).status_code == 404


async def test_the_policy_allows_own_scripts_only_and_no_frame(client: httpx2.AsyncClient) -> None:
    for path in ("", "assets/0/style.css", "assets/0/app/main.js"):
        headers = (await client.get(path)).headers
        policy = dict(it.split(" ", 1) for it in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["require-trusted-types-for"] == "'script'"
        assert not any(
            word in headers["content-security-policy"] for word in ("unsafe", "http", "*")
        )
        assert headers["x-content-type-options"] == "nosniff"
        # voice messages are played from memory and recorded by this page only
        assert policy["media-src"] == "blob:"
        assert "microphone=(self), camera=()" in headers["permissions-policy"]


def test_nothing_of_the_page_makes_elements_from_text_or_loads_from_elsewhere() -> None:
    sink = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
    )
    for path in OWN:
        if path.suffix in (".js", ".html", ".css"):
            text = path.read_text()
            assert not sink.search(text), path
            assert not re.search(r"https?://(?!www\.w3\.org)", text), path
    page = (STATIC / "index.html").read_text()
    assert "<style" not in page and not re.search(r"<script(?![^>]*\bsrc=)", page)


async def test_the_guides_that_the_page_lists_are_served(client: httpx2.AsyncClient) -> None:
    listed = re.search(
        r"GUIDES = \[(.*?)\]", (STATIC / "setup/guide-text.js").read_text(), re.DOTALL
    )
    assert listed is not None
    names = set(re.findall(r"\"([\w-]+)\"", listed[1]))
    assert names == {path.stem for path in (ROOT / "docs").glob("*.md")}
    guide = await client.get("assets/0/docs/slack.md")
    assert guide.text == (ROOT / "docs" / "slack.md").read_text()
    assert guide.headers["content-type"] == "text/markdown; charset=utf-8"
    # an installation without guides has the page all the same
    assert not any(it.startswith("docs/") for it in WebAssets(docs=())._contents)


def test_both_languages_have_every_text_of_the_page() -> None:
    texts = {it.stem: json.loads(it.read_text()) for it in (STATIC / "locales").glob("*.json")}
    assert set(texts) == {"en", "de"}
    assert list(texts["en"]) == list(texts["de"]) == sorted(texts["en"])
    for key, text in texts["en"].items():
        names = re.findall(r"\{\w+\}", text)
        assert sorted(names) == sorted(re.findall(r"\{\w+\}", texts["de"][key])), key
    code = "".join(path.read_text() for path in OWN if path.suffix == ".js")
    used = set(re.findall(r"\bt\(\s*\"([\w.]+)\"", code))
    assert len(used) > 40 and used <= set(texts["en"])


def test_vendored_files_are_those_of_the_pinned_packages() -> None:
    assert LOCK.read_text() == lock_text(file_hashes())
    stored = {p.relative_to(ROOT).as_posix() for p in (ROOT / WEB).rglob("*") if p.is_file()}
    assert stored <= set(file_hashes())
    assert Path(ROOT / WEB / "licenses").is_dir()
