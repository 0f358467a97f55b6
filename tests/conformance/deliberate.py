"""Conformance tests that we deliberately do not pass: {test id: reason}.

An entry is a promise broken towards some client, so it needs a reason that the
client's author would accept. The list should be empty.
"""

FAILURES: dict[str, str] = {}
