"""Lines that wait for others are complete, in order, and not lost."""

from __future__ import annotations

import io
import logging
import logging.handlers
import pathlib
import subprocess
import sys
import threading
import time

import fixtures
from oslo_context import context as log_context

from placement_core import line_buffer
from tests import base

_SECONDS = 10


class _Stream(io.StringIO):
    """A stream that keeps each write, and may be held up."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []
        self.open = threading.Event()
        self.open.set()

    def write(self, text: str) -> int:
        self.open.wait(_SECONDS)
        self.writes.append(text)
        return len(text)


class TestLineBuffer(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.stream = _Stream()
        self.buffer = self.make_buffer(logging.StreamHandler(self.stream))

    def make_buffer(self, target: logging.StreamHandler) -> line_buffer.LineBuffer:
        """Let ``self.log`` write to a handler."""
        self.log = logging.Logger("placement_core.tests")
        self.log.addHandler(target)
        line_buffer.buffer_lines([self.log])
        (buffer,) = self.log.handlers
        self.addCleanup(buffer.close)
        return buffer

    def until_written(self, count: int) -> list[str]:
        """Wait for so many lines; return all."""
        deadline = time.monotonic() + _SECONDS
        while len(lines := "".join(self.stream.writes).splitlines()) < count:
            self.assertLess(time.monotonic(), deadline, lines)
            time.sleep(0.005)
        return lines

    def test_lines_are_written_together_in_order(self) -> None:
        for number in range(500):
            self.log.info("line %d", number)
        self.assertEqual([f"line {number}" for number in range(500)], self.until_written(500))
        self.assertLess(len(self.stream.writes), 100)
        self.log.info("and another")
        self.assertEqual("and another", self.until_written(501)[-1])

    def test_a_warning_is_written_at_once_behind_those_before_it(self) -> None:
        self.log.info("first")
        self.log.warning("second")
        self.assertEqual("first\nsecond\n", "".join(self.stream.writes))

    def test_lines_of_many_threads(self) -> None:
        def log(who: int) -> None:
            for number in range(200):
                self.log.info("%d %d", who, number)

        threads = [threading.Thread(target=log, args=(who,)) for who in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lines = [tuple(map(int, line.split())) for line in self.until_written(1600)]
        self.assertEqual(1600, len(lines))
        for who in range(8):
            self.assertEqual(list(range(200)), [n for writer, n in lines if writer == who])

    def test_a_line_shows_the_request_that_logged_it(self) -> None:
        class Formatter(logging.Formatter):
            def format(self, record: logging.LogRecord) -> str:
                return f"{log_context.get_current().request_id} {super().format(record)}"

        self.buffer.setFormatter(Formatter())
        for request_id in ("req-1", "req-2"):
            log_context.RequestContext(request_id=request_id, overwrite=True)
            self.log.info("line")
        self.assertEqual(["req-1 line", "req-2 line"], self.until_written(2))

    def test_who_logs_waits_for_a_reader_that_is_slow(self) -> None:
        self.stream.open.clear()
        logged = []

        def log() -> None:
            for number in range(5000):
                self.log.info("%d", number)
                logged.append(number)

        thread = threading.Thread(target=log)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.stream.open.set)
        thread.join(0.5)
        self.assertTrue(thread.is_alive())
        # What the thread of the buffer took before, and what may wait then.
        self.assertLess(len(logged), 2200)
        self.stream.open.set()
        self.assertEqual([str(number) for number in range(5000)], self.until_written(5000))

    def test_what_is_logged_while_lines_are_written_does_not_wait_for_itself(self) -> None:
        """A signal handler, or a finalizer, may log in any thread at any time."""
        log_nested = [lambda: self.log.warning("nested")]

        class Stream(_Stream):
            def write(self, text: str) -> int:
                while log_nested:
                    log_nested.pop()()
                return super().write(text)

        self.stream = Stream()
        self.make_buffer(logging.StreamHandler(self.stream))
        thread = threading.Thread(target=self.log.warning, args=("outer",), daemon=True)
        thread.start()
        thread.join(_SECONDS)
        self.assertFalse(thread.is_alive())
        self.assertEqual({"outer", "nested"}, set(self.until_written(2)))

    def test_closing_writes_what_waits_and_later_lines_at_once(self) -> None:
        self.log.info("before")
        self.buffer.close()
        self.assertEqual("before\n", "".join(self.stream.writes))
        self.log.info("after")
        self.assertEqual("before\nafter\n", "".join(self.stream.writes))

    def test_a_file_that_was_moved_away_is_made_anew(self) -> None:
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "log")
        buffer = self.make_buffer(logging.handlers.WatchedFileHandler(path))
        self.log.info("before")
        buffer.flush()
        path.rename(f"{path}.1")
        self.log.info("after")
        buffer.flush()
        self.assertEqual("after\n", path.read_text())
        self.assertEqual("before\n", pathlib.Path(f"{path}.1").read_text())

    def test_levels_and_filters_stay(self) -> None:
        target = logging.StreamHandler(self.stream)
        target.setLevel(logging.INFO)
        target.addFilter(lambda record: "secret" not in record.getMessage())
        self.make_buffer(target)
        self.log.debug("too low")
        self.log.warning("a secret")
        self.log.warning("a line")
        self.assertEqual(["a line"], self.until_written(1))

    def test_one_handler_of_two_loggers_is_one_buffer(self) -> None:
        target = logging.StreamHandler(self.stream)
        target.setFormatter(logging.Formatter("<%(message)s>"))
        loggers = [logging.Logger(name) for name in ("a", "b")]
        for logger in loggers:
            logger.addHandler(target)
        line_buffer.buffer_lines(loggers)
        self.addCleanup(loggers[0].handlers[0].close)
        for logger in loggers:
            logger.info(logger.name)
        self.assertEqual(["<a>", "<b>"], self.until_written(2))

    def test_a_bad_record_stops_nobody(self) -> None:
        self.useFixture(fixtures.MonkeyPatch("sys.stderr", io.StringIO()))
        self.log.info("%d", "no number")
        self.log.info("a line")
        self.assertEqual(["a line"], self.until_written(1))
        self.assertIn("no number", sys.stderr.getvalue())

    def test_handlers_that_look_at_records_stay(self) -> None:
        class Colored(logging.StreamHandler):
            def format(self, record: logging.LogRecord) -> str:
                return f"[{record.levelname}] {super().format(record)}"

        log = logging.Logger("placement_core.tests")
        handlers = [Colored(self.stream), logging.handlers.MemoryHandler(10)]
        for handler in handlers:
            log.addHandler(handler)
        line_buffer.buffer_lines([log])
        self.assertEqual(handlers, log.handlers)

    def test_a_process_that_ends_writes_what_waits(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c",
             "import logging, sys\n"
             "from placement_core import line_buffer\n"
             "logging.basicConfig(level=logging.INFO, stream=sys.stdout, format='%(message)s')\n"
             "line_buffer.buffer_lines([logging.root])\n"
             "for number in range(100):\n"
             "    logging.info('%d', number)\n"],
            stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual([str(number) for number in range(100)], done.stdout.splitlines())
