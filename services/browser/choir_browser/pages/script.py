"""Call `page.js` in a page, in an isolated world that the page's scripts cannot modify.

Called by tab.py, page_actions.py and context.py. Results are validated here, because they come
from a renderer process that runs untrusted scripts.
"""

import asyncio
import json
from importlib.resources import files
from typing import Any, TypeVar

from playwright.async_api import CDPSession, Error
from pydantic import BaseModel, ConfigDict, ValidationError

from choir_browser.pages.error_translation import has_navigated_away
from choir_common.errors import ChoirError, Conflict, InvalidRequest, NotFound

SOURCE = files("choir_browser.pages").joinpath("page.js").read_text()
# A page of 100,000 elements takes about a second.
SCRIPT_TIMEOUT_MS = 10_000
# A page that redirects at once is evaluated where it leads.
MAX_TRIES = 5
PAUSE_S = 0.1


class ScriptResult(BaseModel):
    """A script call's result: an error code, or the fields of its kind."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    fault: str = ""
    value: str = ""


class PageContent(ScriptResult):
    """A page as Markdown."""

    title: str
    text: str
    left_out: int
    scripted: bool
    y: float
    view: float
    height: float


class ClickTarget(ScriptResult):
    """Where to click."""

    x: float = 0
    y: float = 0
    by: str = ""
    """The element that covers it, if any."""
    tick: bool = False
    tab: bool = False
    """Whether it is a link that opens a tab."""


class ElementBox(ScriptResult):
    """An element's position on the screen."""

    x: float = 0
    y: float = 0
    width: float = 0
    height: float = 0


class FocusResult(ScriptResult):
    """A field that is ready for text, or was filled in already."""

    done: bool = False


A = TypeVar("A", bound=ScriptResult)
Argument = str | int | bool | list[str] | dict[str, int | float | bool]


class PageScript:
    """Runs the script in one tab, whatever page is in it."""

    def __init__(self, line: CDPSession) -> None:
        self._line = line

    async def call(self, result_type: type[A], call: str, *arguments: Argument) -> A:
        """Call a function of `page.js` and return its validated result.

        Raises NotFound for a number that is not on the page, Conflict for a disabled or hidden
        element, and InvalidRequest if the action is impossible on it.
        """
        argument_list = ",".join(json.dumps(argument) for argument in arguments)
        answer = await self._evaluate(f"{SOURCE};JSON.stringify(choir.{call}({argument_list}))")
        try:
            result = result_type.model_validate_json(answer["result"].get("value", ""))
        except ValidationError as error:
            raise InvalidRequest("The page changed while it was being read; try again.") from error
        if result.fault:
            raise _fault(result, arguments[0] if arguments else "")
        return result

    async def _evaluate(self, expression: str, tries: int = MAX_TRIES) -> dict[str, Any]:
        tree = await self._line.send("Page.getFrameTree")
        frame = {"frameId": tree["frameTree"]["frame"]["id"], "worldName": "choir"}
        try:
            world = await self._line.send("Page.createIsolatedWorld", frame)
            evaluation = {
                "expression": expression,
                "contextId": world["executionContextId"],
                "returnByValue": True,
                "timeout": SCRIPT_TIMEOUT_MS,
            }
            return await self._line.send("Runtime.evaluate", evaluation)
        except Error as error:
            # The page navigated away before it was evaluated: retry on the page it led to.
            if not has_navigated_away(error) or tries <= 1:
                raise
        await asyncio.sleep(PAUSE_S)
        return await self._evaluate(expression, tries - 1)


def _fault(result: ScriptResult, number: Argument) -> ChoirError:
    match result.fault:
        case "gone":
            return NotFound(
                f"No element of this page has the number {number} any more: `read` it again."
            )
        case "disabled":
            return Conflict(f"{number} is disabled or cannot be changed.")
        case "unseen":
            return Conflict(f"{number} is hidden; make it visible first.")
        case "no field":
            return InvalidRequest(f"{number} is not a text field.")
        case "no list":
            return InvalidRequest(f"{number} is not a list; click it.")
        case "one":
            return InvalidRequest(f"Exactly one option of {number} can be chosen.")
        case "no option":
            return NotFound(f"The list {number} has no option {result.value[:200]!r}.")
    return InvalidRequest(f"The page says of {number}: {result.fault[:100]}.")
