"""Clients that do not read: how many may hold long buffers at once."""

from levada.net.unsent_memory import LOOKED_AT, UnsentMemory


class Client:
    def __init__(self, unsent_bytes: int) -> None:
        self.unsent_bytes = unsent_bytes


def test_it_is_full_when_too_many_clients_do_not_read_and_not_when_they_have_read_since() -> None:
    memory = UnsentMemory(max_holders=3)
    clients = [Client(1_000) for _ in range(3)]
    for client in clients[:2]:
        memory.note(client)
        memory.note(client)
    assert not memory.is_full
    clients[0].unsent_bytes = 0
    memory.note(clients[2])
    assert not memory.is_full
    clients[0].unsent_bytes = 1
    memory.note(clients[0])
    assert memory.is_full


def test_who_has_read_all_or_left_makes_room() -> None:
    memory = UnsentMemory(max_holders=2)
    clients = [Client(1_000) for _ in range(3)]
    for client in clients:
        memory.note(client)
    assert memory.is_full
    memory.forget(Client(1))
    memory.forget(clients[0])
    assert memory.is_full
    memory.forget(clients[1])
    assert not memory.is_full


def test_clients_that_have_read_all_without_a_word_are_found_when_it_is_looked_at() -> None:
    memory = UnsentMemory(max_holders=2)
    clients = [Client(1_000) for _ in range(2)]
    for client in clients:
        memory.note(client)
    assert memory.look_if_full()
    clients[0].unsent_bytes = 0
    assert not memory.look_if_full()


def test_however_many_clients_do_not_read_a_look_is_at_a_few_and_all_are_looked_at_in_turn() -> None:
    looks = 0

    class Counted(Client):
        @property
        def unsent_bytes(self) -> int:
            nonlocal looks
            looks += 1
            return self._unsent

        @unsent_bytes.setter
        def unsent_bytes(self, size: int) -> None:
            self._unsent = size

    memory = UnsentMemory(max_holders=2)
    clients = [Counted(1_000) for _ in range(200)]
    for client in clients:
        memory.note(client)
    looks = 0
    assert memory.look_if_full()
    assert looks == LOOKED_AT
    for client in clients:
        client.unsent_bytes = 0
    for _ in range(len(clients) // LOOKED_AT):
        memory.look_if_full()
    assert not memory.is_full
