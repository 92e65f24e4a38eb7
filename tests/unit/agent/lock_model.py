"""Look at every state a lock table can get into with a few callers, and at every way between them.

The table under test is the transition function itself: each state is a copy of it, and each step a call of
its own `ask` or `release`. A caller asks for one of its locksets, holds it, ends, or
gives up while it waits.
"""

import copy
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from choir_agent.locks.claim import Claim, Lockset
from tests.unit.agent.lock_rules import Asked

MAX_STATES = 200_000


class Table(Protocol):
    """What is checked."""

    @property
    def granted(self) -> dict[int, Claim]: ...

    @property
    def waiting(self) -> dict[int, Claim]: ...

    def request(self, owner: str, locks: Lockset) -> Claim: ...

    def release(self, claim: Claim) -> list[Claim]: ...

    def shape(self) -> object:
        """Return what else its next decisions depend on, in tickets."""


@dataclass(frozen=True)
class Caller:
    """One call at a time of this lane, for one of these locksets; a lane may have several callers."""

    owner: str
    menu: tuple[Lockset, ...]


@dataclass
class World:
    """A table and who stands where in it."""

    table: Table
    tickets: tuple[int, ...]
    """By caller; 0 for one that asks for nothing."""
    choices: tuple[int, ...]

    def copied_table(self) -> Table:
        """Return a table of its own to go on with."""
        claims = (*self.table.granted.values(), *self.table.waiting.values())
        # claims never change, so copies may share them
        return copy.deepcopy(self.table, {id(claim): claim for claim in claims})

    def key(self) -> tuple[object, ...]:
        """Return what makes two worlds the same: not the tickets, but their order."""
        order = {ticket: place for place, ticket in enumerate(sorted({*self.tickets} - {0}))}
        granted = self.table.granted
        return (
            tuple(order.get(ticket, -1) for ticket in self.tickets),
            tuple(ticket in granted for ticket in self.tickets),
            self.choices,
            _renamed(self.table.shape(), order),
        )


def _renamed(shape: object, order: dict[int, int]) -> object:
    if isinstance(shape, dict):
        return tuple(sorted((order.get(a, -1), order.get(b, -1)) for a, b in shape.items()))
    return shape


@dataclass
class Explored:
    """All states, by number, and all ways."""

    callers: tuple[Caller, ...]
    worlds: list[World] = field(default_factory=list)
    ways: list[list[int]] = field(default_factory=list)

    def collisions(self) -> list[World]:
        """Return the states in which two hold what they may not hold together."""
        return [world for world in self.worlds if _collides(world, self.callers)]

    def deadlocks(self) -> list[World]:
        """Return the states in which somebody waits and nobody can end."""
        return [one for one in self.worlds if one.table.waiting and not one.table.granted]

    def starved(self) -> list[int]:
        """Return the callers that may never get their locks although every holder ends."""
        return [caller for caller in range(len(self.callers)) if self._starves(caller)]

    def _starves(self, caller: int) -> bool:
        """Look for a fair way without an end on which the caller waits (Emerson and Lei)."""
        lasting = {
            number
            for number, world in enumerate(self.worlds)
            if world.tickets[caller] in world.table.waiting
        }
        others = [other for other in range(len(self.callers)) if other != caller]
        while True:
            before = len(lasting)
            for other in others:
                ended = {
                    number
                    for number in lasting
                    if self.worlds[number].tickets[other] not in self.worlds[number].table.granted
                }
                reaching = self._leading_to(ended, lasting)
                lasting = {n for n in lasting if any(way in reaching for way in self.ways[n])}
            if len(lasting) == before:
                return bool(lasting)

    def _leading_to(self, goal: set[int], within: set[int]) -> set[int]:
        back: dict[int, list[int]] = {number: [] for number in within}
        for number in within:
            for way in self.ways[number]:
                if way in within:
                    back[way].append(number)
        reached, border = set(goal), deque(goal)
        while border:
            for number in back[border.popleft()]:
                if number not in reached:
                    reached.add(number)
                    border.append(number)
        return reached


def explore(table: Table, callers: tuple[Caller, ...]) -> Explored:
    """Return every state that can be reached from the empty table, breadth first."""
    start = World(table, (0,) * len(callers), (-1,) * len(callers))
    explored = Explored(callers, [start], [])
    numbers = {start.key(): 0}
    place = 0
    while place < len(explored.worlds):
        ways: list[int] = []
        for following in _steps(explored.worlds[place], callers):
            key = following.key()
            number = numbers.setdefault(key, len(numbers))
            if number == len(explored.worlds):
                explored.worlds.append(following)
            ways.append(number)
        explored.ways.append(ways)
        place += 1
        assert place < MAX_STATES
    return explored


def _steps(world: World, callers: tuple[Caller, ...]) -> Iterator[World]:
    for number, caller in enumerate(callers):
        ticket = world.tickets[number]
        for choice, locks in enumerate(caller.menu) if not ticket else ():
            table = world.copied_table()
            claim = table.request(caller.owner, locks)
            yield _changed(world, table, number, claim.ticket, choice)
        if ticket:
            table = world.copied_table()
            claim = table.granted.get(ticket) or table.waiting[ticket]
            table.release(claim)
            yield _changed(world, table, number, 0, -1)


def _changed(world: World, table: Table, number: int, ticket: int, choice: int) -> World:
    tickets, choices = [*world.tickets], [*world.choices]
    tickets[number], choices[number] = ticket, choice
    return World(table, tuple(tickets), tuple(choices))


def _collides(world: World, callers: tuple[Caller, ...]) -> bool:
    holders = [Asked(one.ticket, one.owner, one.locks) for one in world.table.granted.values()]
    return any(
        one.barred_by(other, excused=True) and other.barred_by(one, excused=True)
        for place, one in enumerate(holders)
        for other in holders[place + 1 :]
    )
