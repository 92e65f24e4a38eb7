"""Record docs/web/tour.webp and its screenshots from a real stack and a real Chromium: `make demo`.

The model's answers are written here; everything else is what a user of the page sees.
"""

import asyncio
import io
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.async_api import Locator, expect

from tests.journey.recording import run_recording, step
from tests.support.streaming_model import StreamedCall
from tests.support.web_cockpit import Cockpit, ask, running_cockpit, use_tools

FOLDER = Path(__file__).parents[2] / "docs" / "web"
SECOND_MS = 1_000
SIZE = (1280, 800)
COLOURS = 128
PLAN = """Here is a day in Lyon with an hour of trains on each side.

| time | what | cost |
|---|---|---:|
| 08:04 | train from Geneva | $31 |
| 10:00 | **Vieux Lyon**, the passages | free |
| 12:30 | lunch near the Saône | $24 |
| 14:30 | Musée des Confluences | $10 |
| 18:34 | train back | $31 |

In all **$96**. Shall I look for a cheaper train?
"""
PRICES = "date,train,price\n2026-12-05,08:04,31\n2026-12-05,09:34,24\n2026-12-05,10:04,19\n"
NOTES = {
    "travel.seat": "I take the train rather than the plane, with a window seat in the quiet coach.",
    "travel.budget": "A day trip should cost less than $100.",
    "food.lunch": "No fish for lunch.",
}
UNTIL_DONE = "while [ ! -e done ]; do sleep 0.1; done; cat prices.csv"


class Tour:
    """Takes the pictures of a tour, with the time each of them is shown."""

    def __init__(self, cockpit: Cockpit) -> None:
        self.cockpit = cockpit
        self._frames: list[Image.Image] = []
        self._times: list[int] = []
        self._named: dict[str, Image.Image] = {}

    async def show(self, seconds: float, name: str = "") -> None:
        """Add what the page shows now; it is a screenshot, too, if it has a name."""
        picture = Image.open(io.BytesIO(await self.cockpit.page.screenshot())).convert("RGB")
        self._frames.append(picture)
        self._times.append(round(seconds * SECOND_MS))
        if name:
            self._named[name] = picture.quantize(COLOURS)

    async def stream(self, call: StreamedCall, text: str, parts: int = 6) -> None:
        """Write an answer in parts, and show each."""
        size = len(text) // parts + 1
        draft = self.cockpit.page.locator(".draft")
        for at in range(0, len(text) - size, size):
            call.say(text[at : at + size])
            await expect(draft).to_be_visible()
            await asyncio.sleep(0.3)
            await self.show(0.5)
        call.end(text[(parts - 1) * size :])
        await expect(draft).to_have_count(0)

    def store(self) -> None:
        """Store the tour and the screenshots, once all of them are there."""
        for name, picture in self._named.items():
            picture.save(FOLDER / f"{name}.png", optimize=True)
        first, *rest = self._frames
        first.save(
            FOLDER / "tour.webp",
            save_all=True,
            append_images=rest,
            duration=self._times,
            loop=0,
            quality=60,
            method=4,
        )
        print(
            f"{FOLDER / 'tour.webp'}: {len(self._frames)} pictures, {sum(self._times) / 1000:.0f} s"
        )


def prepare(config: dict[str, Any]) -> None:
    """Set a price of the model, and have a person decide on one file."""
    config["models"]["default"] |= {
        "model": "example-model",
        "prices": {"input": 300, "output": 900},
    }
    config["policy"] = [
        {"action": "ask", "tools": ["choir.fs.write"], "paths": ["bookings.csv"], "why": "money"}
    ]


def lane(cockpit: Cockpit, name: str) -> Locator:
    """Return the card of a lane on the page Now."""
    return cockpit.page.get_by_role("article", name=name, exact=True)


async def chat(tour: Tour) -> None:
    """Ask something, and read the answer while it is written."""
    page = tour.cockpit.page
    messages = page.locator(".message")
    if await messages.count():  # such as a notice that the agent was too slow
        raise AssertionError(f"somebody has written already: {await messages.first.inner_text()}")
    await tour.show(3)
    await page.get_by_label("Write a message").fill("Plan a day in Lyon for me, by train")
    await tour.show(2)
    await page.keyboard.press("Enter")
    call = await tour.cockpit.model.next_call()
    await tour.show(1)
    await tour.stream(call, PLAN)
    await tour.show(8, "chat")


async def work(tour: Tour) -> None:
    """Follow two jobs; one waits for the lock of the other."""
    cockpit, page = tour.cockpit, tour.cockpit.page
    (cockpit.stack.home / "workspaces" / "main" / "prices.csv").write_text(PRICES)
    call = await ask(cockpit, "Find cheaper trains")
    jobs = [("watch-prices", "Wait for the new prices."), ("compare", "Compare the trains.")]
    use_tools(call, *(("choir.core.spawn", {"job_name": n, "task_spec": t}) for n, t in jobs))
    calls: dict[str, StreamedCall] = {}
    while len(calls) < 3:
        call = await cockpit.model.next_call()
        words = str(call.body["messages"])
        name = "edge" if "Find cheaper trains" in words else "wait"
        calls["compare" if name == "wait" and jobs[1][1] in words else name] = call
    await page.get_by_role("link", name="Now").click()
    await expect(lane(cockpit, "Job compare")).to_contain_text("thinking")
    await tour.show(4)
    use_tools(calls["wait"], ("choir.exec", {"command": UNTIL_DONE}))
    await expect(lane(cockpit, "Job watch-prices")).to_contain_text("Holds workspace")
    await tour.show(4)
    use_tools(calls["compare"], ("choir.exec", {"command": "sort -t, -k3 -n prices.csv"}))
    await expect(lane(cockpit, "Job compare")).to_contain_text("held by Job watch-prices")
    await tour.show(9, "now")
    await lane(cockpit, "Job watch-prices").get_by_role("button", name="Instruct").click()
    await page.get_by_role("dialog").get_by_role("textbox").fill("Only trains before noon.")
    await tour.show(5)
    await page.keyboard.press("Escape")
    calls["edge"].end("I compare the trains of that day; I will tell you.")
    (cockpit.stack.home / "workspaces" / "main" / "done").touch()
    async with asyncio.timeout(60):
        for _ in range(4):  # an answer of each job, and what the conversation makes of it
            (await cockpit.model.next_call()).end("The train at 10:04 costs $19.")
    await expect(lane(cockpit, "Job compare")).to_contain_text("completed")
    await tour.show(4)


async def decide(tour: Tour) -> None:
    """Decide on what the agent wants to write."""
    cockpit, page = tour.cockpit, tour.cockpit.page
    call = await ask(cockpit, "Note the booking of the 10:04 train")
    use_tools(
        call, ("choir.fs.write", {"path": "bookings.csv", "content": "2026-12-05,10:04,19\n"})
    )
    await page.get_by_role("link", name="Approvals").click()
    review = page.get_by_role("link", name="Review").first
    await expect(review).to_be_visible()
    await tour.show(4)
    await review.click()
    await expect(page.locator(".change")).to_be_visible()
    await tour.show(7, "approval")
    box = page.get_by_role("checkbox")
    if await box.count():
        await box.check()
    await page.get_by_role("button", name="Approve").click()
    (await cockpit.model.next_call()).end("It is noted in bookings.csv.")
    await expect(page.locator(".toast")).to_have_attribute("data-shown", "no")
    await tour.show(4)


async def remember(tour: Tour) -> None:
    """Store some knowledge, as if the agent had learned it."""
    for key, text in NOTES.items():
        await asyncio.to_thread(tour.cockpit.stack.run, "memory", "put", "main", "--key", key, text)


async def look_back(tour: Tour) -> None:
    """Read the log, memory, costs and settings."""
    page = tour.cockpit.page
    await page.get_by_role("link", name="Log", exact=True).click()
    await expect(page.locator(".log-session").first).to_be_visible()
    await tour.show(4)
    await page.locator(".log-session").first.click()
    await page.get_by_role("button", name="Verify").click()
    await expect(page.get_by_text("Chain intact")).to_be_visible()
    await tour.show(7, "log")
    await page.locator(".log-groups").scroll_into_view_if_needed()
    await page.mouse.move(*(edge // 2 for edge in SIZE))
    await page.mouse.wheel(0, 600)
    await asyncio.sleep(0.5)
    await tour.show(6)
    await page.get_by_role("link", name="Memory", exact=True).click()
    # the log stays until the next page is loaded
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Memory")
    await page.get_by_role("combobox").select_option(label="Knowledge")
    await page.get_by_role("searchbox").fill("how do I like to travel?")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text(NOTES["travel.seat"])).to_be_visible()
    await page.get_by_text("Why it was found").first.click()
    await tour.show(7, "memory")
    await page.get_by_role("link", name="Cost and health").click()
    await expect(page.locator(".cost-chart").first).to_be_visible()
    await tour.show(6, "cost")
    await page.mouse.wheel(0, 900)
    await asyncio.sleep(0.5)
    await tour.show(5)


async def set_up(tour: Tour) -> None:
    """Look at the settings, then at the chat in the dark."""
    page = tour.cockpit.page
    await page.get_by_role("link", name="Set-up").click()
    for section, seconds in (
        ("Agents", 4),
        ("Models", 5),
        ("Channels", 4),
        ("Secrets", 4),
    ):
        await page.get_by_role("link", name=section).click()
        await asyncio.sleep(1)
        await tour.show(seconds)
    await page.get_by_role("link", name="Configuration").click()
    await asyncio.sleep(1)
    await tour.show(6, "setup")
    await page.emulate_media(color_scheme="dark")
    await page.get_by_role("link", name="Chat", exact=True).click()
    await expect(page.get_by_label("Write a message")).to_be_visible()
    await tour.show(5)


async def record() -> None:
    """Make the tour."""
    FOLDER.mkdir(exist_ok=True)
    async with running_cockpit(prepare) as cockpit:
        tour = Tour(cockpit)
        for part in (remember, chat, work, decide, look_back, set_up):
            async with step(part.__name__.replace("_", " ")):
                await part(tour)
        tour.store()


if __name__ == "__main__":
    run_recording(record())
