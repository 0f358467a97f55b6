"""The trace that a request belongs to is read strictly, and passed on."""

from __future__ import annotations

import threading

from hypothesis import given, strategies as st

from placement_core import trace_context
from placement_core.trace_context import TraceContext
from tests import base

_TRACE, _PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
_VALID = f"00-{_TRACE}-{_PARENT}-01"


class TestParse(base.TestCase):
    def test_valid(self) -> None:
        for header, flags in (
            (_VALID, 1), (f"00-{_TRACE}-{_PARENT}-00", 0), (f"00-{_TRACE}-{_PARENT}-ff", 3),
            (f" {_VALID}\t", 1), (f"01-{_TRACE}-{_PARENT}-01", 1),
            (f"cc-{_TRACE}-{_PARENT}-01-what-will-be", 1), (f"01-{_TRACE}-{_PARENT}-01-", 1),
        ):
            with self.subTest(header):
                self.assertEqual(TraceContext(_TRACE, flags, ""), trace_context.parse(header))

    def test_invalid(self) -> None:
        for header in (
            "", "-", _VALID[:-1], f"{_VALID}0", f"{_VALID}-", f"{_VALID}-more", f"ff{_VALID[2:]}",
            f"01-{_TRACE}-{_PARENT}-01more", f"00-{'0' * 32}-{_PARENT}-01",
            f"00-{_TRACE}-{'0' * 16}-01", _VALID.upper(), f"0g{_VALID[2:]}", f"{_VALID[:-2]}0g",
            f"00-{_TRACE[1:]}-{_PARENT}-01", f"00-{_TRACE}-{_PARENT}0-01", f"{_VALID},{_VALID}",
            _VALID.replace("-", "_"), f"{_VALID}\n", f"0٠{_VALID[2:]}", _VALID * 10000,
        ):
            with self.subTest(header):
                self.assertIsNone(trace_context.parse(header))

    def test_tracestate(self) -> None:
        for state, kept in (("a=1,b=2", "a=1,b=2"), (" a=1 ", "a=1"), ("", ""), ("a=\x00", ""),
                            ("a=1\r\nX-Auth-Token: b", ""), ("a=ü", "")):
            with self.subTest(state):
                self.assertEqual(
                    TraceContext(_TRACE, 1, kept), trace_context.parse(_VALID, state))

    @given(st.text() | st.from_regex(r"\A[0-9a-f]{1,3}-[0-9a-f]{30,33}-[0-9a-f]{15,17}-.*\Z"),
           st.text())
    def test_garbage(self, traceparent: str, tracestate: str) -> None:
        trace_context.receive(
            {"HTTP_TRACEPARENT": traceparent, "HTTP_TRACESTATE": tracestate})
        headers = trace_context.make_headers()
        if headers:
            # What was accepted is valid for the next service, too.
            self.assertIsNotNone(trace_context.parse(**headers))
            self.assertTrue("".join(headers.values()).isascii())


class TestHeaders(base.TestCase):
    def receive(self, **headers: str) -> str | None:
        self.addCleanup(trace_context.receive, {})
        return trace_context.receive({f"HTTP_{name.upper()}": value
                                      for name, value in headers.items()})

    def test_a_new_parent_each_time(self) -> None:
        self.assertEqual(_TRACE, self.receive(traceparent=_VALID, tracestate="a=1,b=2"))
        parents = set()
        for _ in range(3):
            headers = trace_context.make_headers()
            self.assertEqual("a=1,b=2", headers["tracestate"])
            version, trace, parent, flags = headers["traceparent"].split("-")
            self.assertEqual(("00", _TRACE, "01"), (version, trace, flags))
            parents.add(parent)
        self.assertEqual(3, len(parents - {_PARENT}))

    def test_nothing_is_made_up(self) -> None:
        self.receive(traceparent=_VALID)
        for headers in ({}, {"traceparent": "x"}, {"tracestate": "a=1"}):
            self.assertIsNone(self.receive(**headers))
            self.assertEqual({}, trace_context.make_headers())

    def test_other_threads_have_their_own(self) -> None:
        self.receive(traceparent=_VALID)
        seen = []
        thread = threading.Thread(target=lambda: seen.append(trace_context.make_headers()))
        thread.start()
        thread.join()
        self.assertEqual([{}], seen)
