"""What happens in the shop, made up from a seed: some of it broken, some of it late, with the books of it."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TypeAlias

ORDERS, PAYMENTS, CLICKS, CUSTOMERS = "orders", "payments", "clicks", "customers"
RAW_TOPICS = (ORDERS, PAYMENTS, CLICKS, CUSTOMERS)

COUNTRIES = ("AT", "BE", "CH", "DE", "FR", "IT", "NL", "PL")
CITIES = ("Bern", "Delft", "Gent", "Graz", "Lyon", "Torun", "Trier", "Turin")
PAGES = ("home", "search", "shoes", "shirts", "basket", "checkout")
USERS = 500

KINDS = {CLICKS: 0.62, ORDERS: 0.30, CUSTOMERS: 0.08}
"""What happens by itself; payments follow from orders."""

PAID = 0.85
FOREIGN_CARD = 0.02
BROKEN = 0.01
LATE = 0.03
HOPELESSLY_LATE = 0.003

LATE_MS = 20_000
HOPELESS_MS = 30 * 60_000
PAYMENT_DELAY_MS = 3_000
CENTS_PER_POINT = 100

Fields: TypeAlias = dict[str, str | int]


@dataclass(frozen=True, slots=True)
class Event:
    """A record of a raw topic; broken ones have a value that no reader can decode."""

    topic: str
    key: str
    value: bytes
    happened_ms: int


@dataclass(slots=True)
class Books:
    """What the shop itself knows; the pipeline has to find it out from the records alone."""

    sent: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)
    customers: dict[str, str] = field(default_factory=dict)
    """The city of each."""


class Shop:
    """Makes events up; the same seed and the same clock make the same ones."""

    def __init__(self, seed: int) -> None:
        self.books = Books()
        self._random = random.Random(seed)
        self._homes = {self._user(number): self._random.choice(COUNTRIES) for number in range(USERS)}
        self._versions: Counter[str] = Counter()
        self._clicks = 0
        self._orders = 0
        self._due: list[tuple[int, int, Event]] = []
        self._good_orders: dict[str, tuple[str, int]] = {}

    def happen(self, count: int, now_ms: int) -> Iterator[Event]:
        """So many new events, and the payments that are due."""
        for _ in range(count):
            kind = self._random.choices(list(KINDS), list(KINDS.values()))[0]
            yield self._count({CLICKS: self._click, ORDERS: self._order, CUSTOMERS: self._change}[kind](now_ms))
        yield from self.pay(now_ms)

    def pay(self, now_ms: int) -> Iterator[Event]:
        """The payments that are due by now."""
        while self._due and self._due[0][0] <= now_ms:
            yield self._count(heappop(self._due)[2])

    def _count(self, event: Event) -> Event:
        self.books.sent[event.topic] += 1
        return event

    def _user(self, number: int) -> str:
        return f"user-{number:03d}"

    def _any_user(self) -> str:
        # A few are here all the time, as in every shop.
        return self._user(min(int(self._random.expovariate(1 / 120)), USERS - 1))

    def _click(self, now_ms: int) -> Event:
        user = self._any_user()
        self._clicks += 1
        fields: Fields = {"id": f"click-{self._clicks:07d}", "user": user, "page": self._random.choice(PAGES)}
        return self._event(CLICKS, user, {**fields, "country": self._homes[user]}, now_ms)

    def _order(self, now_ms: int) -> Event:
        user = self._any_user()
        self._orders += 1
        order = f"order-{self._orders:07d}"
        cents = self._random.randint(500, 20_000)
        event = self._event(ORDERS, order, {"id": order, "user": user, "cents": cents}, now_ms)
        if self._random.random() < PAID:
            self._pay_later(order, user, cents, now_ms, is_good_order=order in self._good_orders)
        return event

    def _pay_later(self, order: str, user: str, cents: int, now_ms: int, *, is_good_order: bool) -> None:
        at_ms = now_ms + self._random.randint(100, PAYMENT_DELAY_MS)
        is_foreign = self._random.random() < FOREIGN_CARD
        country = self._random.choice(COUNTRIES) if is_foreign else self._homes[user]
        fields: Fields = {"id": f"pay-{order}", "order": order, "user": user, "cents": cents, "country": country}
        refused_before = self.books.refused[PAYMENTS]
        payment = self._event(PAYMENTS, order, fields, at_ms)
        if is_good_order and self.books.refused[PAYMENTS] == refused_before:
            self.books.points[user] += cents // CENTS_PER_POINT
        heappush(self._due, (at_ms, self._orders, payment))

    def _change(self, now_ms: int) -> Event:
        user = self._any_user()
        self._versions[user] += 1
        is_there = user in self.books.customers
        operation = "INSERT" if not is_there else self._random.choices(["UPDATE", "DELETE"], [0.85, 0.15])[0]
        city = self._random.choice(CITIES)
        fields: Fields = {"op": operation, "user": user, "city": city, "version": self._versions[user]}
        refused_before = self.books.refused[CUSTOMERS]
        event = self._event(CUSTOMERS, user, fields, now_ms, may_be_late=False)
        if self.books.refused[CUSTOMERS] != refused_before:
            return event
        if operation == "DELETE":
            del self.books.customers[user]
        else:
            self.books.customers[user] = city
        return event

    def _event(self, topic: str, key: str, fields: Fields, now_ms: int, *, may_be_late: bool = True) -> Event:
        """As it should be; or broken; or with a time that is long past."""
        chance = self._random.random()
        happened_ms = now_ms
        is_refused = False
        if may_be_late and chance < HOPELESSLY_LATE:
            happened_ms, is_refused = now_ms - HOPELESS_MS, True
        elif may_be_late and chance < HOPELESSLY_LATE + LATE:
            happened_ms = now_ms - self._random.randint(1_000, LATE_MS)
        value = json.dumps({**fields, "at_ms": happened_ms}).encode()
        if chance > 1 - BROKEN:
            value, is_refused = self._break(value, fields), True
        if is_refused:
            self.books.refused[topic] += 1
        elif topic == ORDERS:
            self._good_orders[key] = (str(fields["user"]), int(fields["cents"]))
        return Event(topic, key, value, now_ms)

    def _break(self, value: bytes, fields: Fields) -> bytes:
        """Cut off in the middle, or of the wrong type, or with nothing where something has to be."""
        return self._random.choice(
            [
                value[: len(value) // 2],
                json.dumps({**fields, "at_ms": "yesterday"}).encode(),
                json.dumps({**fields, "user": None, "at_ms": 0}).encode(),
            ]
        )
