"""Tracing starts as OpenTelemetry's variables say, or says why not; off, it is nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unittest

from placement_core import tracing
from tests import base, spans

_BLOCKED = """
import sys
sys.modules["opentelemetry{module}"] = None
"""
_START = """
from placement_core import errors, tracing
try:
    tracing.start()
except errors.ConfigurationError as error:
    sys.exit(str(error))
with tracing.span("outer", attributes={"a": 1}):
    with tracing.database_span("write", "sqlite"):
        print(tracing.make_headers()["traceparent"], file=sys.stderr)
"""


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a new process."""
    environ = {name: value for name, value in os.environ.items()
               if not name.startswith("OTEL_")}
    return subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}"], env={**environ, **variables},
        capture_output=True, text=True, timeout=60, check=False)


class TestOff(base.TestCase):
    def test_nothing_is_loaded(self) -> None:
        result = run(
            "from placement_core import client_sessions, db, tracing\n"
            "with tracing.span('a') as span: assert span is None\n"
            "assert tracing.get_link() is None\n"
            "assert tracing.make_headers() == {}\n"
            "tracing.mark_failed(None, 'x')\n"
            # (oslo.middleware loads it where it is installed, so this is not the whole service.)
            "assert 'opentelemetry' not in sys.modules\n")
        self.assertEqual((0, ""), (result.returncode, result.stderr))

    def test_exceptions_pass(self) -> None:
        for context in (tracing.span("a"), tracing.database_span("read", "sqlite"),
                        tracing.server_span({}, "GET", {})):
            with self.assertRaises(ValueError), context:
                raise ValueError


class TestMissing(base.TestCase):
    def test_no_package(self) -> None:
        for module in ("", ".sdk") if spans.INSTALLED else ("",):
            result = run(_BLOCKED.format(module=module) + _START)
            self.assertEqual(1, result.returncode)
            self.assertRegex(result.stderr, (
                r"^\[tracing\] enabled = true: expected OpenTelemetry to be installed "
                r"\(pip install 'placement-core\[tracing\]'\): .*opentelemetry.*\n$"))


@unittest.skipUnless(spans.INSTALLED, spans.REASON)
class TestVariables(base.TestCase):
    def test_wrong_values(self) -> None:
        for variables, expected in (
            ({"OTEL_TRACES_EXPORTER": "zipkin"},
             "OTEL_TRACES_EXPORTER = zipkin: expected otlp, console or none"),
            ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
             "OTEL_EXPORTER_OTLP_PROTOCOL = grpc: expected http/protobuf"),
            ({"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"},
             "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL = grpc: expected http/protobuf"),
        ):
            with self.subTest(expected):
                result = run(_START, **variables)
                self.assertEqual((1, f"{expected}\n"), (result.returncode, result.stderr))
        result = run(_START, OTEL_PROPAGATORS="pigeon")
        self.assertEqual(1, result.returncode)
        self.assertRegex(result.stderr.splitlines()[-1], (
            r"^\[tracing\] enabled = true: OpenTelemetry refuses its environment variables: "
            r".*pigeon"))

    def test_console(self) -> None:
        for variables, service in (({}, "placement-core"),
                                   ({"OTEL_SERVICE_NAME": "capacity"}, "capacity")):
            result = run(_START, OTEL_TRACES_EXPORTER="console", **variables)
            self.assertEqual(0, result.returncode, result.stderr)
            texts = result.stdout.replace("}\n{", "}\0{").split("\0")
            write, outer = map(json.loads, texts)
            self.assertEqual(("write", "outer"), (write["name"], outer["name"]))
            self.assertEqual(outer["context"]["span_id"], write["parent_id"])
            self.assertEqual(service, outer["resource"]["attributes"]["service.name"])
            trace, span = (write["context"][name][2:] for name in ("trace_id", "span_id"))
            # The flag of Level 2, that the id is random, may be set or not.
            self.assertIn(result.stderr.strip(),
                          (f"00-{trace}-{span}-01", f"00-{trace}-{span}-03"))

    def test_sampler(self) -> None:
        result = run(_START, OTEL_TRACES_EXPORTER="console", OTEL_TRACES_SAMPLER="always_off")
        self.assertEqual((0, ""), (result.returncode, result.stdout))
        self.assertRegex(result.stderr, r"^00-[0-9a-f]{32}-[0-9a-f]{16}-0[02]\n$")

    def test_none(self) -> None:
        result = run(_START, OTEL_TRACES_EXPORTER="none")
        self.assertEqual((0, ""), (result.returncode, result.stdout))
