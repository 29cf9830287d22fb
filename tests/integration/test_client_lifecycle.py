"""Clients that are not closed, that are forked, interrupted, dropped: they end without noise and lose nothing."""

import asyncio
import os
import signal

import pytest

from tests.brokers import BrokerProcess
from tests.clients.cases import topic_of, values_of
from tests.clients.producer_cases import read_all
from tests.clients.scripts import run_script

EXIT_SECONDS = 7.0
"""Our own five, and what Python needs on a busy machine."""


def values_in(broker: BrokerProcess, topic: str) -> list[bytes]:
    return values_of(asyncio.run(read_all(broker.bootstrap, topic)))


# Clients that are not closed


ENDS_OF_LOOPS = {
    "asyncio.run": "asyncio.run(main())",
    "loop.close": "loop = asyncio.new_event_loop(); loop.run_until_complete(main()); loop.close()",
    "uvloop": "from levada.world.real import run; run(main())",
}

UNCLOSED = """
        clients = []
        async def main():
            # Their tasks run when the loop ends, one way or another.
            asyncio.get_running_loop().slow_callback_duration = 60
            producer = aio.Producer(bootstrap)
            await (await producer.send(topic, b"sent"))
            owner = aio.Producer(bootstrap, transactional_id=topic)
            await owner.init_transactions()
            await owner.begin_transaction()
            await (await owner.send(topic, b"sent"))
            consumer = aio.Consumer(bootstrap, group_id=f"{topic}-{os.getpid()}", auto_offset_reset="earliest")
            consumer.subscribe([topic])
            while not await consumer.poll(0.2):
                pass
            next_consumer = aio.Consumer(bootstrap, group_id=f"{topic}-{os.getpid()}-next", group_protocol="consumer")
            next_consumer.subscribe([topic])
            await next_consumer.poll(0.2)
            admin = aio.Admin(bootstrap)
            await admin.list_topics()
            clients.extend([producer, owner, consumer, next_consumer, admin])
        {end}
        clients.clear()
        gc.collect()
"""


@pytest.mark.parametrize("end", ENDS_OF_LOOPS)
def test_a_loop_that_ends_before_its_clients_are_closed_makes_no_noise(broker: BrokerProcess, end: str) -> None:
    topic = topic_of(broker.bootstrap, "unclosed")
    # A loop that is closed under a client has no way to close its sockets; Python says so in its development mode.
    flags = "-W error::RuntimeWarning" if end == "loop.close" else "-X dev -W error"
    script = UNCLOSED.replace("{end}", ENDS_OF_LOOPS[end])
    ending = run_script(script, broker.bootstrap, topic, flags=flags)
    ending.check_quiet(warnings=2)
    assert ending.errors.count("a consumer was not closed") == len(ending.errors.splitlines())


def test_records_that_a_loop_leaves_behind_are_told_in_one_line(broker: BrokerProcess) -> None:
    ending = run_script(
        """
        async def main():
            producer = aio.Producer(bootstrap, linger_ms=60_000)
            handle = await producer.send(topic, b"left behind")
            return producer, handle

        producer, handle = asyncio.run(main())
        try:
            handle.result(0)
        except IllegalState as error:
            print(error)
        try:
            asyncio.run(producer.send(topic, b"again"))
        except IllegalState as error:
            print(error)
        """,
        broker.bootstrap,
        topic_of(broker.bootstrap, "left"),
    )
    ending.check_quiet(warnings=1)
    assert "ended before 1 record(s) were sent" in ending.errors
    assert "closed before this record was sent" in ending.said[0]
    assert "closed" in ending.said[1]


def test_an_asyncio_client_is_of_one_loop(broker: BrokerProcess) -> None:
    ending = run_script(
        """
        loops = [asyncio.new_event_loop(), asyncio.new_event_loop()]
        async def make():
            producer = aio.Producer(bootstrap)
            await (await producer.send(topic, b"first"))
            return producer
        producer = loops[0].run_until_complete(make())
        for use in (lambda: producer.send(topic, b"second"), producer.flush, lambda: producer.partitions_for("other")):
            try:
                loops[1].run_until_complete(use())
                print("no error")
            except IllegalState as error:
                print(error)
        loops[0].run_until_complete(producer.close())
        for loop in loops:
            loop.close()
        """,
        broker.bootstrap,
        topic_of(broker.bootstrap, "loops"),
    )
    ending.check_quiet(warnings=1)
    assert all("another event loop" in line for line in ending.said), ending.said
    assert len(ending.said) == 3


@pytest.mark.parametrize("end", ["del client; gc.collect()", "pass"])
def test_a_dropped_producer_sends_what_it_has(broker: BrokerProcess, end: str) -> None:
    """Collected in the middle of a program, or at its end."""
    topic = topic_of(broker.bootstrap, "dropped", 3)
    ending = run_script(
        f"""
        client = Producer(bootstrap, linger_ms=60_000)
        for number in range(3_000):
            client.send(topic, b"%d" % number)
        {end}
        print(time.time())
        """,
        broker.bootstrap,
        topic,
    )
    ending.check_quiet()
    assert ending.at - float(ending.said[0]) < EXIT_SECONDS
    assert sorted(map(int, values_in(broker, topic))) == list(range(3_000))


def test_asyncio_clients_that_are_dropped_send_what_they_have(broker: BrokerProcess) -> None:
    topic = topic_of(broker.bootstrap, "dropped-aio")
    ending = run_script(
        """
        async def main():
            asyncio.get_running_loop().slow_callback_duration = 60
            for number in range(3):
                producer = aio.Producer(bootstrap, linger_ms=10)
                handle = await producer.send(topic, b"%d" % number)
                consumer = aio.Consumer(bootstrap, auto_offset_reset="earliest")
                consumer.assign([(topic, 0)])
                await consumer.poll(0.01)
                del producer, consumer
                gc.collect()
                await handle
        asyncio.run(main())
        """,
        broker.bootstrap,
        topic,
    )
    ending.check_quiet(warnings=3)
    assert ending.errors.count("a consumer was not closed") == 3
    assert values_in(broker, topic) == [b"0", b"1", b"2"]


def test_the_thread_of_a_dropped_client_ends(broker: BrokerProcess) -> None:
    topic = topic_of(broker.bootstrap, "threads")
    ending = run_script(
        """
        for kind in (Producer, Consumer):
            client = kind(bootstrap, **({} if kind is Producer else {"group_id": topic}))
            if kind is Producer:
                client.send(topic, b"one").result()
            else:
                client.subscribe([topic])
                client.poll(0.1)
            del client
            gc.collect()
            for thread in threading.enumerate():
                if thread.name.startswith("levada"):
                    thread.join(10)
                    print(thread.is_alive())
            print("ended")
        """,
        broker.bootstrap,
        topic,
    )
    ending.check_quiet()
    assert "True" not in ending.said
    assert ending.said.count("ended") == 2


def test_the_end_of_the_process_waits_for_a_dead_broker_only_so_long(tmp_path_factory: pytest.TempPathFactory) -> None:
    broker = BrokerProcess(tmp_path_factory.mktemp("dead") / "data").start()
    try:
        topic = topic_of(broker.bootstrap, "dead")
        ending = run_script(
            """
            clients = [Producer(bootstrap), Producer(bootstrap), Consumer(bootstrap, group_id="g")]
            for client in clients[:2]:
                client.send(topic, b"before").result()
            clients[2].subscribe([topic])
            clients[2].poll(0.5)
            os.kill(int(sys.argv[3]), signal.SIGKILL)
            for client in clients[:2]:
                client.send(topic, b"after")
            print(time.time())
            """,
            broker.bootstrap,
            topic,
            str(broker.pid),
        )
    finally:
        broker.kill()
    ending.check_quiet(warnings=2)
    assert ending.errors.count("closed before everything was sent") == 2
    assert ending.at - float(ending.said[0]) < EXIT_SECONDS


# Forks


def test_a_client_made_before_a_fork_says_so_in_the_child(broker: BrokerProcess) -> None:
    topic = topic_of(broker.bootstrap, "forked")
    ending = run_script(
        """
        producer = Producer(bootstrap, linger_ms=60_000)
        producer.send(topic, b"open batch")
        waiting = producer.send(topic, b"waiting")
        consumer = Consumer(bootstrap, group_id=topic, auto_offset_reset="earliest")
        consumer.subscribe([topic])
        consumer.poll(0.2)
        child = os.fork()
        if child == 0:
            start = time.monotonic()
            uses = [
                lambda: producer.send(topic, b"child"),
                lambda: producer.send_many(topic, [b"child"]),
                producer.flush,
                producer.metrics,
                waiting.result,
                lambda: consumer.poll(1.0),
                consumer.commit,
            ]
            for use in uses:
                try:
                    use()
                    print("no error", flush=True)
                except IllegalState as error:
                    assert "fork" in str(error), error
            producer.close()
            consumer.close()
            with Producer(bootstrap) as own:
                own.send(topic, b"of the child").result(10)
            assert time.monotonic() - start < 5
            print("child done", flush=True)
            sys.exit(7)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status))
        producer.send(topic, b"of the parent")
        producer.flush(10)
        waiting.result(0)
        found = []
        while len(found) < 4:
            found += [record.value for record in consumer.poll(1.0)]
        print(sorted(found))
        consumer.close()
        producer.close()
        """,
        broker.bootstrap,
        topic,
    )
    ending.check_quiet()
    assert ending.said == ["child done", "7", str([b"of the child", b"of the parent", b"open batch", b"waiting"])]


def test_a_child_ends_as_it_will_after_its_parent_has_looked_up_a_name(broker: BrokerProcess) -> None:
    """Resolver threads of the parent's are not in the child, and must not be missed there."""
    topic = topic_of(broker.bootstrap, "named")
    ending = run_script(
        """
        producer = Producer(bootstrap.replace("127.0.0.1", "localhost"))
        producer.send(topic, b"parent").result(10)
        child = os.fork()
        if child == 0:
            sys.exit(7)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status))
        """,
        broker.bootstrap,
        topic,
    )
    ending.check_quiet()
    assert ending.said == ["7"]


def test_a_child_of_multiprocessing_ends_and_the_parent_goes_on(broker: BrokerProcess) -> None:
    topic = topic_of(broker.bootstrap, "pool")
    ending = run_script(
        """
        import multiprocessing

        def work(number):
            try:
                producer.send(topic, b"with the parent's")
            except IllegalState:
                with Producer(bootstrap) as own:
                    return own.send(topic, b"%d" % number).result(10).topic

        producer = Producer(bootstrap)
        producer.send(topic, b"parent").result(10)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(work, range(4)) == [topic] * 4
        producer.send(topic, b"parent").result(10)
        """,
        broker.bootstrap,
        topic,
    )
    ending.check_quiet()
    assert sorted(values_in(broker, topic)) == [b"0", b"1", b"2", b"3", b"parent", b"parent"]


# Interrupts


INTERRUPTED = """
def stop_broker():
    os.kill(int(sys.argv[3]), signal.SIGSTOP)

def interrupt(sent):
    # Once the main thread is where it waits for the client.
    main = threading.main_thread().ident
    def stack():
        frame = sys._current_frames()[main]
        while frame is not None:
            yield frame.f_code.co_name
            frame = frame.f_back
    while not {"wait", "wait_in_thread"} & set(stack()):
        time.sleep(0.01)
    time.sleep(0.05)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)

def check_interrupted(wait):
    sent = []
    threading.Thread(target=interrupt, args=(sent,), daemon=True).start()
    try:
        wait()
        print("not interrupted")
    except KeyboardInterrupt:
        print(time.monotonic() - sent[0] < 0.5)

def check_closed(client):
    start = time.monotonic()
    client.close(0.5)
    print(time.monotonic() - start < 3)
"""

PRODUCER_WAITS = """
producer = Producer(bootstrap, buffer_memory=65_536)
producer.send(topic, b"known").result()
stop_broker()
handle = producer.send(topic, b"waits")
check_interrupted(handle.result)
check_interrupted(producer.flush)
def send():
    while True:
        producer.send(topic, bytes(10_000))
check_interrupted(send)
check_interrupted(lambda: producer.send_many(topic, [bytes(10_000)] * 10))
check_interrupted(lambda: producer.send("a topic that is not known yet", b""))
check_closed(producer)
"""

CONSUMER_WAITS = """
consumer = Consumer(bootstrap, group_id=topic)
consumer.subscribe([topic])
while not consumer.assignment():
    consumer.poll(0.2)
consumer.position((topic, 0))
stop_broker()
check_interrupted(lambda: consumer.commit({(topic, 0): 0}))
check_interrupted(lambda: consumer.poll(60))
check_interrupted(lambda: consumer.committed([(topic, 0)]))
check_interrupted(lambda: next(iter(consumer)))
check_closed(consumer)
"""


@pytest.mark.parametrize(("waits", "count"), [(PRODUCER_WAITS, 5), (CONSUMER_WAITS, 4)], ids=["producer", "consumer"])
def test_an_interrupt_ends_a_call_that_waits(broker: BrokerProcess, waits: str, count: int) -> None:
    topic = topic_of(broker.bootstrap, "interrupted")
    try:
        ending = run_script(INTERRUPTED + waits, broker.bootstrap, topic, str(broker.pid))
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    ending.check_quiet(warnings=1)
    assert ending.said == ["True"] * (count + 1)


def test_an_interrupt_inside_a_with_block_is_not_held_up_by_its_end(broker: BrokerProcess) -> None:
    topic = topic_of(broker.bootstrap, "with")
    try:
        ending = run_script(
            """
            from levada.client.blocking import client
            from levada.client.producer import producer as inner

            client.FAREWELL_SECONDS = inner.INTERRUPTED_SECONDS = 0.5
            start = 0
            try:
                with Producer(bootstrap, transactional_id=topic) as owner, Producer(bootstrap) as producer:
                    producer.send(topic, b"known").result()
                    owner.init_transactions()
                    with owner.transaction():
                        owner.send(topic, b"sent").result()
                        os.kill(int(sys.argv[3]), signal.SIGSTOP)
                        producer.send(topic, b"waits")
                        start = time.monotonic()
                        raise KeyboardInterrupt
            except KeyboardInterrupt:
                print(time.monotonic() - start < 3)
            """,
            broker.bootstrap,
            topic,
            str(broker.pid),
        )
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    ending.check_quiet(warnings=3)
    assert ending.said == ["True"]
