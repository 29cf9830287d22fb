"""Sends what happens in the shop to the brokers, at a chosen rate."""

import threading
import time

from examples.shop.events import PAYMENT_DELAY_MS, Shop
from levada import Producer

TICK_SECONDS = 0.05


class Generator:
    """A thread that sends events for a while; `finish` waits for it and for every acknowledgement."""

    def __init__(self, bootstrap: str, shop: Shop, *, seconds: float, rate: float) -> None:
        self._producer = Producer(bootstrap, linger_ms=20, compression_type="lz4")
        self._shop = shop
        self._seconds = seconds
        self._rate = rate
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="shop", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def finish(self) -> None:
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with self._producer:
                self._send_for_a_while()
        except BaseException as error:
            self._failure = error

    def _send_for_a_while(self) -> None:
        start = time.monotonic()
        made = 0
        while (passed := time.monotonic() - start) < self._seconds:
            count = int(passed * self._rate) - made
            made += count
            self._send(count)
            time.sleep(TICK_SECONDS)
        # The last orders are still to be paid.
        for event in self._shop.pay(_now_ms() + PAYMENT_DELAY_MS):
            self._producer.send(event.topic, event.value, key=event.key.encode(), timestamp_ms=event.happened_ms)
        self._producer.flush()

    def _send(self, count: int) -> None:
        for event in self._shop.happen(count, _now_ms()):
            self._producer.send(event.topic, event.value, key=event.key.encode(), timestamp_ms=event.happened_ms)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
