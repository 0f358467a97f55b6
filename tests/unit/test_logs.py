"""What clients sent stays in one line of the log, and makes no other."""

from __future__ import annotations

import io
import logging
from typing import Any

from oslo_config import cfg
from oslo_log import log as oslo_logging

from placement_core import conf, safe_logging
from tests import base

_FORGED = "2026-01-01 00:00:00.000 1 CRITICAL placement [-] all is lost"
_HOSTILE = (f"a\n{_FORGED}", f"a\r{_FORGED}", f"a\r\n{_FORGED}", f"a\x85{_FORGED}",
            f"a\u2028{_FORGED}", f"\x1b[2K\x1b[1A{_FORGED}", f"a\x9b2K{_FORGED}",
            f"a\x08\x08{_FORGED}", f"\u202e{_FORGED}")


class TestLogs(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.stream = io.StringIO()
        self.handler = logging.StreamHandler(self.stream)
        options = cfg.ConfigOpts()
        conf.register(options)
        options.set_override("connection", "sqlite:////x", "placement_database")
        options([], project="placement", default_config_files=[], default_config_dirs=[])
        self.handler.setFormatter(oslo_logging.formatters.ContextFormatter(config=options))
        safe_logging.protect([self.handler])
        self.log = logging.Logger("placement_core.tests")
        self.log.addHandler(self.handler)

    def lines(self) -> list[str]:
        """Return what was written since the last time, as any reader splits it."""
        text = self.stream.getvalue()
        self.stream.seek(0)
        self.stream.truncate()
        self.assertTrue(all(line.isprintable() for line in text.split("\n")), repr(text))
        return text.splitlines()

    def test_messages(self) -> None:
        for text in _HOSTILE:
            with self.subTest(repr(text)):
                self.log.warning("the claim of project %s expired", text)
                (line,) = self.lines()
                self.assertIn("the claim of project", line)
                self.assertIn("all is lost", line)
                self.log.warning(f"the host {text} is gone")
                self.assertEqual(1, len(self.lines()))

    def test_tracebacks(self) -> None:
        for text in _HOSTILE:
            for formatter in (self.handler.formatter, None):
                self.handler.setFormatter(formatter)
                safe_logging.protect([self.handler])
                try:
                    try:
                        raise RuntimeError(f"{text} first")
                    except RuntimeError as error:
                        raise ValueError(text) from error
                except ValueError:
                    self.log.exception("request failed: %s", text)
                lines = self.lines()
                self.assertGreater(len(lines), 3)
                self.assertFalse([line for line in lines if line.startswith(_FORGED)], lines)

    def test_what_is_harmless_stays_as_it_is(self) -> None:
        for text in ("Zoë's project 'a b' [c] \\n %s", "日本"):
            self.log.warning("%s", text)
            self.assertTrue(self.lines()[0].endswith(text))

    def test_secrets(self) -> None:
        for text in ("mysql://nova:s3cr3t@host/db", "rabbit://a:s3cr3t@h:1,b:s3cr3t@i:2/v",
                     "http://keystone/v3?token=s3cr3t", "'postgresql://u:se/cr@et:s3cr3t@h/d'"):
            try:
                raise ValueError(f"cannot reach {text}")
            except ValueError:
                self.log.exception("cell %s", text)
            self.assertNotIn("s3cr3t", "\n".join(self.lines()))

    def test_records_for_fluentd(self) -> None:
        """They are dictionaries, not text."""
        records: list[dict[str, Any]] = []
        handler = logging.Handler()
        handler.setFormatter(oslo_logging.formatters.FluentFormatter())
        self.patch(handler, "emit", lambda record: records.append(handler.format(record)))
        safe_logging.protect([handler])
        self.log.handlers = [handler]
        try:
            raise ValueError("cannot reach mysql://nova:s3cr3t@host/db")
        except ValueError:
            self.log.exception(f"cell mysql://nova:s3cr3t@host/db\n{_FORGED}")
        (record,) = records
        self.assertTrue(record["message"].startswith("cell mysql://"), record)
        self.assertTrue(record["message"].isprintable(), record)
        self.assertIn("ValueError: cannot reach mysql://", record["traceback"])
        self.assertNotIn("s3cr3t", str(record))

    def test_twice_is_once(self) -> None:
        formatter = self.handler.formatter
        safe_logging.protect([self.handler])
        self.assertIs(formatter, self.handler.formatter)

    def test_printable(self) -> None:
        self.assertEqual("a\\nb\\x1b[1m\\u2028é", safe_logging.printable("a\nb\x1b[1m\u2028é"))
