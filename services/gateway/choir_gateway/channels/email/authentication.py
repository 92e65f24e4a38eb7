"""Proof of a mail's sender: the results that the receiving mail server wrote into the headers. Pure.

Anybody can write any sender and any header. Only the first `Authentication-Results` header of the configured
server counts (RFC 8601): servers add theirs above those that came with the mail. A later header of the same
name that contradicts it refuses the mail, too.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from choir_common.wire.channel_config import MAIL_ADDRESS, SenderCheck

HEADER = "authentication-results"
MAX_HEADER_CHARS = 10_000
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_STATEMENTS = re.compile(rf'(?:{_QUOTED}|[^";])+')
_BALANCED = re.compile(rf'(?:{_QUOTED}|[^"])*')
_PAIR = re.compile(rf'\s*([^\s;="]+)\s*=\s*({_QUOTED}|[^\s;"]+)\s*')
# A display name with an address, or an address alone. Other forms can be read in two ways.
_FROM = re.compile(
    rf'\s*(?:{_QUOTED}|[^"<>@,;:]*)\s*<(?P<framed>{MAIL_ADDRESS.pattern})>\s*'
    rf"|\s*(?P<bare>{MAIL_ADDRESS.pattern})\s*"
)

Headers = Sequence[tuple[str, str]]
"""The headers of a mail from the top, with names in lower case."""


@dataclass(frozen=True, slots=True)
class MethodResult:
    """The result of one method, such as dmarc, with its properties."""

    method: str
    result: str
    properties: Mapping[str, str] = field(default_factory=dict)


def find_sender(headers: Headers) -> str | None:
    """Return the address in `From`; None unless there is exactly one that can be read in one way only."""
    values = [value for name, value in headers if name == "from"]
    match = _FROM.fullmatch(values[0]) if len(values) == 1 else None
    return (match["framed"] or match["bare"]) if match else None


def find_doubt(headers: Headers, sender: str, *, authserv_id: str, check: SenderCheck) -> str:
    """Return why the sender is not proven; an empty text if it is."""
    reports = list(_reports(headers, authserv_id))
    if not reports:
        return f"no Authentication-Results header of {authserv_id}"
    domain = sender.rpartition("@")[2].casefold()
    dmarc = [it for report in reports for it in report if it.method == "dmarc"]
    if check == "aligned":
        if any(it.result == "fail" for it in dmarc):
            return "dmarc=fail"
        aligned = [it for it in reports[0] if it.result == "pass" and _is_aligned(it, domain)]
        return "" if aligned else "neither dmarc, dkim nor spf passed for the domain of the sender"
    if any(it.result != "pass" for it in dmarc):
        return f"dmarc={next(it.result for it in dmarc if it.result != 'pass')}"
    if not any(it.method == "dmarc" for it in reports[0]):
        return "no result of dmarc"
    if not all(_is_aligned(it, domain) for it in dmarc):
        return "dmarc passed for another domain"
    return ""


def parse_results(value: str) -> tuple[str, tuple[MethodResult, ...]]:
    """Return the server's name and the results in a header; parts that are malformed are left out."""
    text = _without_comments(value)
    if not _BALANCED.fullmatch(text):
        # An open quotation mark could hide where a result ends.
        return text.split(";")[0].strip().casefold(), ()
    server, *statements = _STATEMENTS.findall(text) or [""]
    # A version may follow the name.
    name = (server.split() or [""])[0].casefold()
    results = (_parse_result(statement) for statement in statements)
    return name, tuple(it for it in results if it is not None)


def _reports(headers: Headers, authserv_id: str) -> Iterator[tuple[MethodResult, ...]]:
    for name, value in headers:
        if name != HEADER or len(value) > MAX_HEADER_CHARS:
            continue
        server, results = parse_results(value)
        if server == authserv_id.casefold():
            yield results


def _is_aligned(result: MethodResult, domain: str) -> bool:
    """Return whether a result is about the domain, or about a domain above it."""
    match result.method:
        case "dmarc":
            # Some servers do not name the domain; a mail has one sender only.
            return result.properties.get("header.from", domain) == domain
        case "dkim":
            signer = result.properties.get("header.d") or _domain(result, "header.i")
            return _covers(signer, domain)
        case "spf":
            return _covers(_domain(result, "smtp.mailfrom"), domain)
        case _:
            return False


def _covers(authority: str, domain: str) -> bool:
    # Who publishes keys of example.org also decides on mail of its subdomains; a top-level domain does not.
    return domain == authority or ("." in authority and domain.endswith(f".{authority}"))


def _domain(result: MethodResult, name: str) -> str:
    return result.properties.get(name, "").rpartition("@")[2]


def _without_comments(value: str) -> str:
    """Remove comments, which nest; an open one removes the rest."""
    out: list[str] = []
    depth, quoted, escaped = 0, False, False
    for character in value:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == '"' and not depth:
            quoted = not quoted
        elif character == "(" and not quoted:
            depth += 1
        elif character == ")" and depth:
            depth -= 1
            continue
        if not depth:
            out.append(character)
    return "".join(out)


def _parse_result(statement: str) -> MethodResult | None:
    """Return the result in `method=result name=value …`."""
    pairs: list[tuple[str, str]] = []
    at = 0
    while at < len(statement):
        pair = _PAIR.match(statement, at)
        if pair is None:
            return None
        pairs.append((pair[1].casefold(), pair[2].strip('"').casefold()))
        at = pair.end()
    if not pairs or len(dict(pairs)) != len(pairs):
        return None
    (method, result), *properties = pairs
    return MethodResult(method.partition("/")[0].strip(), result, dict(properties))
