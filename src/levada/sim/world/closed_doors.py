"""The parts of asyncio's loop that lead out of the simulation, each refused by name."""

import asyncio
from typing import NoReturn


class LeakAroundDoors(RuntimeError):
    """Simulated code asked the event loop for a thread, socket, process or signal instead of asking its World."""


def refuse(method: str) -> NoReturn:
    raise LeakAroundDoors(f"loop.{method} leaks around the doors: reach the outside through the node's World")


class ClosedDoorsLoop(asyncio.AbstractEventLoop):
    """What is left to implement is the pure part of a loop: callbacks, timers, futures and tasks."""

    def run_in_executor(self, *args: object) -> NoReturn:
        refuse("run_in_executor")

    def set_default_executor(self, *args: object) -> NoReturn:
        refuse("set_default_executor")

    def call_soon_threadsafe(self, *args: object, **kwargs: object) -> NoReturn:
        # Only another thread needs it, and there is none whose timing a seed could decide.
        refuse("call_soon_threadsafe")

    def getaddrinfo(self, *args: object, **kwargs: object) -> NoReturn:
        refuse("getaddrinfo")

    def getnameinfo(self, *args: object, **kwargs: object) -> NoReturn:
        refuse("getnameinfo")

    def create_connection(self, *args: object, **kwargs: object) -> NoReturn:
        refuse("create_connection")

    def create_server(self, *args: object, **kwargs: object) -> NoReturn:
        refuse("create_server")

    def create_unix_connection(self, *args: object, **kwargs: object) -> NoReturn:
        refuse("create_unix_connection")

    def create_unix_server(self, *args: object, **kwargs: object) -> NoReturn:
        refuse("create_unix_server")

    def create_datagram_endpoint(self, *args: object, **kwargs: object) -> NoReturn:
        refuse("create_datagram_endpoint")

    def connect_accepted_socket(self, *args: object, **kwargs: object) -> NoReturn:
        refuse("connect_accepted_socket")

    def connect_read_pipe(self, *args: object, **kwargs: object) -> NoReturn:
        refuse("connect_read_pipe")

    def connect_write_pipe(self, *args: object, **kwargs: object) -> NoReturn:
        refuse("connect_write_pipe")

    def start_tls(self, *args: object, **kwargs: object) -> NoReturn:
        refuse("start_tls")

    def sendfile(self, *args: object, **kwargs: object) -> NoReturn:
        refuse("sendfile")

    def subprocess_exec(self, *args: object, **kwargs: object) -> NoReturn:
        refuse("subprocess_exec")

    def subprocess_shell(self, *args: object, **kwargs: object) -> NoReturn:
        refuse("subprocess_shell")

    def add_reader(self, *args: object) -> NoReturn:
        refuse("add_reader")

    def remove_reader(self, *args: object) -> NoReturn:
        refuse("remove_reader")

    def add_writer(self, *args: object) -> NoReturn:
        refuse("add_writer")

    def remove_writer(self, *args: object) -> NoReturn:
        refuse("remove_writer")

    def add_signal_handler(self, *args: object) -> NoReturn:
        refuse("add_signal_handler")

    def remove_signal_handler(self, *args: object) -> NoReturn:
        refuse("remove_signal_handler")

    def sock_recv(self, *args: object) -> NoReturn:
        refuse("sock_recv")

    def sock_recv_into(self, *args: object) -> NoReturn:
        refuse("sock_recv_into")

    def sock_recvfrom(self, *args: object) -> NoReturn:
        refuse("sock_recvfrom")

    def sock_recvfrom_into(self, *args: object) -> NoReturn:
        refuse("sock_recvfrom_into")

    def sock_sendall(self, *args: object) -> NoReturn:
        refuse("sock_sendall")

    def sock_sendto(self, *args: object) -> NoReturn:
        refuse("sock_sendto")

    def sock_connect(self, *args: object) -> NoReturn:
        refuse("sock_connect")

    def sock_accept(self, *args: object) -> NoReturn:
        refuse("sock_accept")

    def sock_sendfile(self, *args: object, **kwargs: object) -> NoReturn:
        refuse("sock_sendfile")

    def set_task_factory(self, *args: object) -> NoReturn:
        # Tasks must be SimTasks, which know the process they belong to.
        refuse("set_task_factory")
