"""What an agent does in pages: press, type, choose, scroll, go back, and keep tabs apart."""

import asyncio
from collections.abc import AsyncIterator

import psutil
import pytest
import pytest_asyncio

from choir_browser.settings import BrowserSettings
from choir_common.errors import Conflict, DeadlineExceeded, InvalidRequest, NotFound, Unavailable
from choir_common.wire.browser import (
    Back,
    Click,
    ReadPage,
    Scroll,
    SelectOption,
    Tabs,
    TypeText,
)
from tests.security.browser.web import Answer, html
from tests.service.browser.acting import Surfer, commands_below, kill_renderers, surfing
from tests.support.chromium import needs_chromium

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="module")]

FORM = """<h1>Order</h1><p>See <a href="/other?x=1">the other page</a>. [12: not a number of ours]</p>
<form action="/done"><label>Name <input name=who></label>
<label for=c>Colour</label><select id=c name=c><option>red<option>green</select>
<label><input type=checkbox name=ok> I agree</label> <input type=date name=day>
<input type=password name=pin value=geheim> <input name=off disabled value=no>
<button>Send it</button></form>
<ul><li>one<li>two<ul><li>deep</ul></ul>
<table><tr><th>A<th>B<tr><td>1<td><a href=/b>two</a></table><pre>x = 1
  y</pre>
<p style="display:none">hidden words</p>
<div style="position:relative;height:30px"><button>Under</button>
<div style="position:absolute;inset:0;background:red">the cover</div></div>
<div id=host></div><script>host.attachShadow({mode:'open'}).innerHTML=
"<p>in a shadow <button onclick=\\"this.textContent='Pressed in shadow'\\">Shade</button></p>"</script>
<iframe srcdoc="<button onclick=&quot;this.textContent='Pressed in frame'&quot;>Framed</button>"
 width=300 height=100></iframe>"""

DONE = "<p id=p></p><script>p.textContent='got '+location.search</script>"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Surfer]:
    async with surfing(BrowserSettings(browser_max_tabs=3)) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def surfer(shared: Surfer) -> AsyncIterator[Surfer]:
    """An agent that has no context yet, in the browser that most tests share."""
    shared.site.paths.clear()
    yield Surfer(shared.rooms, shared.site)
    await shared.rooms.close("main")


def dress(surfer: Surfer) -> None:
    surfer.site.paths |= {
        "/": html(FORM, "Shop"),
        "/other": html("<p>the other page is here</p>"),
        "/done": html(DONE),
    }


async def test_a_page_is_markdown_with_a_number_on_all_that_can_be_used(surfer: Surfer) -> None:
    dress(surfer)
    page = await surfer.open("/")
    assert (page.title, page.origin, page.untrusted) == ("Shop", surfer.site.url, True)
    for line in (
        "# Order",
        "See [1: the other page](/other?x=1). (12: not a number of ours]",
        '[2: field "Name", empty]',
        '[3: list "Colour", chosen "red"; of "red", "green"]',
        '[4: checkbox "I agree", off]',
        '[6: password field "pin", holds "•••"]',
        '[7: field "off", holds "no", disabled]',
        "- two\n  - deep",
        "| A | B |\n| --- | --- |\n| 1 | [9: two](/b) |",
        "```\nx = 1\n  y\n```",
        'in a shadow [11: button "Shade"]',
        '[12: button "Framed"]',
    ):
        assert line in page.text, page.text
    assert "hidden words" not in page.text and "geheim" not in page.text


async def test_chromium_shows_pages_alone_and_keeps_off_what_its_driver_switches_off(
    surfer: Surfer,
) -> None:
    dress(surfer)
    await surfer.open("/")
    commands = [command for _, command in commands_below(psutil.Process(), "chrom")]
    assert [words for words in commands if "--top-chrome-webui" in words] == []
    main = next(words for words in commands if not any(w.startswith("--type=") for w in words))
    sign = "--disable-features="
    drivers, ours = (set(w.removeprefix(sign).split(",")) for w in main if w.startswith(sign))
    assert drivers < ours  # Chromium obeys the last list alone


async def test_a_form_is_filled_in_sent_and_gone_back_from(surfer: Surfer) -> None:
    dress(surfer)
    await surfer.open("/")
    typed = await surfer.do(TypeText(ref=surfer.ref("Name"), text="Ann & Bob"))
    assert typed.notes == (f"Field {surfer.ref('Name')} now contains 'Ann & Bob'.",)
    await surfer.do(TypeText(ref=surfer.ref("day"), text="2026-05-04"))
    await surfer.do(SelectOption(ref=surfer.ref("Colour"), options=("green",)))
    ticked = await surfer.do(Click(ref=surfer.ref("I agree")))
    assert '"I agree", on' in ticked.text
    sent = await surfer.do(Click(ref=surfer.ref("Send it")))
    assert "?who=Ann+%26+Bob&c=green&ok=on&day=2026-05-04&pin=geheim" in sent.text
    assert (await surfer.do(Back())).title == "Shop"
    await surfer.do(TypeText(ref=surfer.ref("Name"), text=""))
    entered = await surfer.do(TypeText(ref=surfer.ref("Name"), text="Eve", submit=True))
    assert "?who=Eve&" in entered.text


async def test_links_shadows_and_frames_are_pressed_as_by_a_person(surfer: Surfer) -> None:
    dress(surfer)
    await surfer.open("/")
    assert "Pressed in shadow" in (await surfer.do(Click(ref=surfer.ref("Shade")))).text
    assert "Pressed in frame" in (await surfer.do(Click(ref=surfer.ref("Framed")))).text
    led = await surfer.do(Click(ref=surfer.ref("the other page")))
    assert (led.url, led.status) == (f"{surfer.site.url}/other?x=1", 200)
    assert "the other page is here" in led.text


async def test_what_cannot_be_done_is_said_and_leaves_the_page_as_it_is(surfer: Surfer) -> None:
    dress(surfer)
    with pytest.raises(NotFound, match="`open` one first"):
        await surfer.do(ReadPage())
    await surfer.open("/")
    await surfer.do(TypeText(ref=surfer.ref("Name"), text="kept"))
    with pytest.raises(Conflict, match="covered by 'the cover'"):
        await surfer.do(Click(ref=surfer.ref("Under")))
    with pytest.raises(Conflict, match="disabled"):
        await surfer.do(TypeText(ref=surfer.ref("off"), text="x"))
    with pytest.raises(InvalidRequest, match="not a text field"):
        await surfer.do(TypeText(ref=surfer.ref("Send it"), text="x"))
    with pytest.raises(NotFound, match="no option 'blue'"):
        await surfer.do(SelectOption(ref=surfer.ref("Colour"), options=("blue",)))
    with pytest.raises(InvalidRequest, match="not a list"):
        await surfer.do(SelectOption(ref=surfer.ref("Name"), options=("x",)))
    with pytest.raises(NotFound, match="number 999"):
        await surfer.do(Click(ref=999))
    with pytest.raises(NotFound, match="no previous page"):
        await surfer.do(Back())
    assert 'holds "kept"' in (await surfer.do(ReadPage())).text
    old = surfer.ref("Name")
    await surfer.open("/other")
    with pytest.raises(NotFound, match="read"):
        await surfer.do(Click(ref=old))


async def test_dialogs_are_closed_and_told_and_a_page_cannot_hold_one_back(surfer: Surfer) -> None:
    dress(surfer)
    stay = "<script>onbeforeunload=e=>{e.preventDefault();e.returnValue='x'}</script>"
    surfer.site.paths["/alert"] = html(f"{stay}<button onclick=alert('boo')>Alert</button>")
    await surfer.open("/alert")
    told = await surfer.do(Click(ref=surfer.ref("Alert")))
    assert any("alert was closed" in note and "boo" in note for note in told.notes)
    assert (await surfer.open("/other")).url.endswith("/other")


async def test_a_long_page_is_read_in_parts_and_by_what_is_on_the_screen(surfer: Surfer) -> None:
    lines = "".join(f"<p>Line {n} of a long tale about the river.</p>" for n in range(2_000))
    surfer.site.paths["/long"] = html(f"<nav><a href=/m>menu</a></nav>{lines}<footer>imprint")
    first = await surfer.open("/long")
    assert first.truncated and len(first.text) == first.next_start == 20_000
    assert "menu" not in first.text and any("whole" in note for note in first.notes)
    second = await surfer.do(ReadPage(start=first.next_start))
    assert second.text.startswith(first.text[-1:]) is False
    both = first.text + second.text
    assert all(f"Line {n} of" in both for n in range(900))
    assert "menu" in (await surfer.do(ReadPage(whole=True))).text
    bottom = await surfer.do(Scroll(to="bottom"))
    assert "Line 1999 of" in bottom.text and "Line 3 of" not in bottom.text
    assert "Line 3 of" in (await surfer.do(Scroll(to="top"))).text


async def test_a_press_opens_a_tab_a_script_does_not_and_there_is_a_bound(surfer: Surfer) -> None:
    dress(surfer)
    surfer.site.paths["/pop"] = html(
        "<script>for(let i=0;i<50;i++)open('/other')</script>"
        "<a href=/other target=_blank>new one</a>"
        "<button onclick=\"for(let i=0;i<50;i++)open('/other')\">storm</button>"
    )
    await surfer.open("/pop")
    assert len((await surfer.do(Tabs())).tabs) == 1
    newer = await surfer.do(Click(ref=surfer.ref("new one")))
    assert "the other page is here" in newer.text and newer.tab != 1
    listed = await surfer.do(Tabs(do="switch", tab=1))
    assert [tab.current for tab in listed.tabs] == [True, False]
    await surfer.do(ReadPage())
    await surfer.do(Click(ref=surfer.ref("storm")))
    assert len((await surfer.do(Tabs())).tabs) <= 3
    while len((await surfer.do(Tabs())).tabs) < 3:
        await surfer.do(Tabs(do="new"))
    with pytest.raises(Conflict, match="3 tabs"):
        await surfer.do(Tabs(do="new"))
    await surfer.do(Tabs(do="close", tab=1))
    assert 1 not in [tab.tab for tab in (await surfer.do(Tabs())).tabs]
    with pytest.raises(NotFound, match="no tab 1"):
        await surfer.do(Tabs(do="switch", tab=1))


async def test_lanes_of_one_agent_have_tabs_of_their_own_and_one_cookie_jar(surfer: Surfer) -> None:
    dress(surfer)
    kind = "Content-Type: text/html"
    surfer.site.paths["/set"] = Answer(b"set", headers=("Set-Cookie: who=me; Path=/", kind))
    surfer.site.paths["/who"] = html("<p id=p></p><script>p.textContent=document.cookie</script>")
    job = Surfer(surfer.rooms, surfer.site, lane="core:digger")
    await asyncio.gather(surfer.open("/"), job.open("/set"))
    assert (await surfer.do(ReadPage())).title == "Shop"
    assert "who=me" in (await surfer.open("/who")).text
    assert (await job.do(ReadPage())).text == "set"


async def test_a_tab_that_hangs_or_crashes_is_replaced_and_cookies_stay(surfer: Surfer) -> None:
    dress(surfer)
    kind = "Content-Type: text/html"
    surfer.site.paths["/set"] = Answer(b"set", headers=("Set-Cookie: who=me; Path=/", kind))
    surfer.site.paths["/who"] = html("<p id=p></p><script>p.textContent=document.cookie</script>")
    surfer.site.paths["/hang"] = html("<button onclick='for(;;);'>Hang</button>")
    await surfer.open("/set")
    await surfer.open("/hang")
    with pytest.raises(DeadlineExceeded, match="its tab was closed"):
        await surfer.do(Click(ref=surfer.ref("Hang")), within_s=4)
    with pytest.raises(NotFound, match="`open` one first"):
        await surfer.do(ReadPage())
    await surfer.open("/other")
    kill_renderers()
    with pytest.raises(Unavailable, match="crashed"):
        await surfer.do(ReadPage())
    assert "who=me" in (await surfer.open("/who")).text
