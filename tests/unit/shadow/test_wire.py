"""Messages as bytes: what is read of answers, and what is written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import testtools

from placement_core.shadow import wire
from placement_core.shadow.messages import Answer, Headers, Request

_OK = b"HTTP/1.1 200 OK\r\n"


def read(*parts: bytes, method: str = "GET") -> tuple[Answer, bool]:
    """Read an answer that comes in parts, and then the end of the connection."""
    received = iter((*parts, b""))

    async def receive() -> bytes:
        return next(received)

    return asyncio.run(wire.read_answer(method, 0.0, receive))


def cut(data: bytes) -> Iterable[bytes]:
    """Return the bytes of data, one by one."""
    return (data[at:at + 1] for at in range(len(data)))


class TestReadAnswer(testtools.TestCase):
    def test_framings(self) -> None:
        """The body, and whether the connection can be used again; whole and byte by byte."""
        for rest, body, is_reusable in (
            (b"Content-Length: 2\r\n\r\n{}", b"{}", True),
            (b"Content-Length: 2\r\nConnection: close\r\n\r\n{}", b"{}", False),
            (b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", b"{}", True),
            (b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Late: 1\r\n\r\n", b"{}", True),
            (b"\r\n{}", b"{}", False),
        ):
            for parts in ([_OK + rest], cut(_OK + rest)):
                answer, reusable = read(*parts)
                self.assertEqual((200, "OK", body, is_reusable), (
                    answer.status, answer.reason, answer.body, reusable), rest)
                self.assertIs(None, answer.get("x-late"))

    def test_an_old_server(self) -> None:
        answer, is_reusable = read(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n1")
        self.assertEqual((b"1", False), (answer.body, is_reusable))

    def test_headers(self) -> None:
        """Their order, spelling and characters stay, the spaces around their values do not."""
        answer, _ = read(_OK + b"x-B:\t1 \r\nX-b: \xe9\r\nX-None:\r\nContent-Length:0\r\n\r\n")
        self.assertEqual(
            (("x-B", "1"), ("X-b", "\xe9"), ("X-None", ""), ("Content-Length", "0")),
            answer.headers)

    def test_lines_that_end_otherwise(self) -> None:
        answer, _ = read(b"HTTP/1.1 404 Not Found\nA: b\nContent-Length: 1\n\n1")
        self.assertEqual((404, "b", b"1"), (answer.status, answer.get("a"), answer.body))

    def test_without_a_body(self) -> None:
        """HEAD has the length that GET would have; what could follow is not waited for."""
        for method, head in (
            ("HEAD", _OK + b"Content-Length: 7\r\n\r\n"),
            ("PUT", b"HTTP/1.1 204 No Content\r\n\r\n"),
            ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n"),
        ):
            self.assertEqual(b"", read(head, method=method)[0].body)

    def test_after_interim_answers(self) -> None:
        answer, is_reusable = read(
            b"HTTP/1.1 100 Continue\r\nX: 1\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + _OK
            + b"Content-Length: 1\r\n\r\n1")
        self.assertEqual(("OK", (("Content-Length", "1"),), b"1", True), (
            answer.reason, answer.headers, answer.body, is_reusable))

    def test_what_nobody_asked_for(self) -> None:
        """The answer is as it was; nothing else is asked over the connection."""
        whole = _OK + b"Content-Length: 1\r\n\r\n1"
        for more in (b"H", b"?", b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"):
            answer, is_reusable = read(whole + more)
            self.assertEqual((200, b"1", False), (answer.status, answer.body, is_reusable))

    def test_no_answer(self) -> None:
        """Only if nothing came at all, nobody answered."""
        for error, data in (
            (wire.Unanswered, b""),
            (ConnectionError, b"H"),
            (ConnectionError, _OK),
            (ConnectionError, _OK + b"Content-Length: 2\r\n\r\n1"),
            (ConnectionError, _OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n12\r\n"),
            (ConnectionError, b"HTTP/1.1 100 Continue\r\n\r\n"),
            (ValueError, b"SSH-2.0-OpenSSH\r\n"),
            (ValueError, b"HTTP/1.1 101 Switching Protocols\r\n"
                         b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\n"),
        ):
            raised = self.assertRaises(error, read, data)
            self.assertEqual(not data, isinstance(raised, wire.Unanswered))


class TestRenderRequest(testtools.TestCase):
    def render(
        self, method: str = "GET", target: str = "/", headers: Headers = (), body: bytes = b"",
        *, keep_alive: bool = True,
    ) -> list[bytes]:
        """Return the lines of a request."""
        return wire.render_request(
            Request(method, target, headers, body), prefix="/placement", host="here",
            keep_alive=keep_alive).split(b"\r\n")

    def test_a_read(self) -> None:
        self.assertEqual(
            [b"GET /placement/a?b=%20 HTTP/1.1", b"Host: there", b"x-a: \xe9", b"", b""],
            self.render(target="/a?b=%20", headers=(("Host", "there"), ("x-a", "\xe9"))))

    def test_a_write(self) -> None:
        self.assertEqual(
            [b"PUT /placement/ HTTP/1.1", b"Host: here", b"Content-Length: 2",
             b"Connection: close", b"", b"{}"],
            self.render("PUT", body=b"{}", keep_alive=False))
        self.assertIn(b"Content-Length: 0", self.render("DELETE"))

    def test_what_is_about_one_connection(self) -> None:
        self.assertEqual(
            [b"Host: here", b"X-B: 2"],
            self.render(headers=(
                ("Connection", "keep-alive, X-A"), ("X-A", "1"), ("Expect", "100-continue"),
                ("Transfer-Encoding", "chunked"), ("X-B", "2")))[1:-2])

    def test_characters_that_are_none_of_a_url(self) -> None:
        self.assertEqual(
            "GET /placement/é HTTP/1.1".encode(), self.render(target="/é")[0])

    def test_another_request_inside(self) -> None:
        """Nothing of a request ends it before its end."""
        for target in ("/ HTTP/1.1", "/\r\nX: 1", "/\n", "/\0"):
            self.assertRaises(ValueError, self.render, target=target)
        for header in (("X", "1\r\nY: 2"), ("X", "1\n"), ("X\r\n", "1"), ("X", "\0")):
            self.assertRaises(ValueError, self.render, headers=(header,))


class TestRenderAnswer(testtools.TestCase):
    def render(
        self, headers: Headers = (), body: bytes = b"", *, status: int = 200, method: str = "GET",
        version: tuple[int, int] = (1, 1), keep_alive: bool = True,
    ) -> list[bytes]:
        """Return the lines of an answer."""
        return wire.render_answer(
            Answer(status, "So it is", headers, body), method=method, version=version,
            keep_alive=keep_alive).split(b"\r\n")

    def test_nothing_is_added(self) -> None:
        self.assertEqual(
            [b"HTTP/1.1 200 So it is", b"x-A: 1", b"X-a: 2", b"content-length: 2", b"", b"{}"],
            self.render((("x-A", "1"), ("X-a", "2"), ("content-length", "2")), b"{}"))

    def test_that_came_in_chunks(self) -> None:
        self.assertEqual(
            [b"Content-Length: 2"],
            self.render((("Transfer-Encoding", "chunked"),), b"{}")[1:-2])

    def test_without_a_body(self) -> None:
        """The length that GET would have is not known."""
        self.assertEqual([], self.render(method="HEAD")[1:-2])
        self.assertEqual([], self.render(status=204)[1:-2])
        self.assertEqual([], self.render(status=304)[1:-2])

    def test_the_connection_of_the_client(self) -> None:
        for version, keep_alive, line, headers in (
            ((1, 1), True, b"HTTP/1.1", []),
            ((1, 1), False, b"HTTP/1.1", [b"Connection: close"]),
            ((1, 0), True, b"HTTP/1.0", [b"Connection: keep-alive"]),
            ((1, 0), False, b"HTTP/1.0", []),
        ):
            lines = self.render(
                (("Connection", "X-Of-Upstream"), ("X-Of-Upstream", "1")), status=204,
                version=version, keep_alive=keep_alive)
            self.assertEqual((line, headers), (lines[0].split()[0], lines[1:-2]))
