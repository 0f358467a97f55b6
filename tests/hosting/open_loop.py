"""A client that does not wait: requests begin at a rate, however late the answers are."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Answer:
    """An answer, or how a connection ended without one.

    :ivar status: None without an answer.
    :ivar head: status line and headers in small letters; or the error.
    :ivar ended_at: on the monotonic clock.
    """

    status: int | None
    head: str
    body: bytes
    seconds: float
    ended_at: float


class Client:
    """Sends requests of an administrator to one address, each on a connection of its own.

    :param timeout: seconds until it gives an answer up.
    """

    def __init__(self, address: str, timeout: float) -> None:
        host, _, port = address.partition(":")
        self._host, self._port = host, int(port)
        self._timeout = timeout

    async def ask(self, method: str, path: str) -> Answer:
        """Send one request without a body."""
        started = time.monotonic()
        content = b""
        problem = "empty answer"
        try:
            content = await asyncio.wait_for(self._exchange(method, path), self._timeout)
        except (OSError, TimeoutError) as error:
            problem = repr(error)
        ended = time.monotonic()
        head, _, body = content.partition(b"\r\n\r\n")
        status = int(head.split()[1]) if head else None
        return Answer(
            status, head.decode().lower() if head else problem, body, ended - started, ended)

    async def _exchange(self, method: str, path: str) -> bytes:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write((
                f"{method} {path} HTTP/1.1\r\nHost: placement\r\nX-Auth-Token: admin\r\n"
                "OpenStack-API-Version: placement 1.39\r\nConnection: close\r\n"
                "Content-Length: 0\r\n\r\n").encode())
            return await reader.read()
        finally:
            writer.close()

    async def ask_together(self, method: str, paths: list[str]) -> list[Answer]:
        """Send requests at the same moment."""
        return await asyncio.gather(*(self.ask(method, path) for path in paths))

    async def ask_in_turn(
        self, clients: int, seconds: float, method: str, make_path: Callable[[], str]
    ) -> list[Answer]:
        """Let so many clients send one request after the other, for some time."""
        until = time.monotonic() + seconds
        answers: list[Answer] = []

        async def send() -> None:
            while time.monotonic() < until:
                answers.append(await self.ask(method, make_path()))

        await asyncio.gather(*(send() for _ in range(clients)))
        return answers

    async def ask_at_rate(
        self, rate: float, seconds: float, method: str, make_path: Callable[[], str]
    ) -> list[Answer]:
        """Begin so many requests a second for some time, and return all answers."""
        started = time.monotonic()
        tasks: list[asyncio.Task[Answer]] = []
        while (passed := time.monotonic() - started) < seconds:
            while len(tasks) < passed * rate:
                tasks.append(asyncio.create_task(self.ask(method, make_path())))
            await asyncio.sleep(0.005)
        return await asyncio.gather(*tasks)
