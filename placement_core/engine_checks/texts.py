"""How texts are compared and kept."""

from __future__ import annotations

import sqlalchemy as sa
from oslo_db import exception as db_exception

from placement_core import db
from placement_core.db import patterns
from placement_core.engine_checks.results import Limited, require
from placement_core.engine_checks.trial import Trial

#: Pairs of names that are different.
_DIFFERENT = (("host", "Host"), ("cafe", "café"), ("strasse", "straße"),
              ("é", "e\N{COMBINING ACUTE ACCENT}"))
#: Characters of two, three and four bytes.
_WIDE = "é€\N{DROMEDARY CAMEL}\N{CJK UNIFIED IDEOGRAPH-20000}"


def names_differ_by_case_and_accents(trial: Trial) -> None:
    """Names are equal only if all their characters are."""
    rows = trial.tables.rows
    for pair in _DIFFERENT:
        for name in pair:
            try:
                trial.insert(name)
            except db_exception.DBDuplicateEntry:
                require("two names", f"one ({pair[1]!r} is a duplicate)", f"{pair} are")
        with db.read_once(trial.context()) as session:
            seen = session.execute(
                sa.select(rows.c.name).where(rows.c.name == pair[0])).scalars().all()
        require([pair[0]], list(seen), f"names equal to {pair[0]!r}")


def trailing_blanks_matter(trial: Trial) -> None:
    """Names that differ in trailing blanks are different."""
    trial.insert("host")
    try:
        trial.insert("host ")
    except db_exception.DBDuplicateEntry:
        raise Limited("names and ids that differ only in trailing blanks are equal, so that the "
                      "second is refused as a duplicate") from None


def wide_characters_are_kept(trial: Trial) -> None:
    """Characters of up to four bytes in UTF-8 are kept, and found."""
    rows = trial.tables.rows
    row_id = trial.insert(_WIDE)
    with db.write(trial.context()) as session:
        session.execute(sa.update(rows).values(text=_WIDE))
    with db.read_once(trial.context()) as session:
        seen = session.execute(
            sa.select(rows.c.id, rows.c.name, rows.c.text)
            .where(rows.c.name == _WIDE)).all()
    require([(row_id, _WIDE, _WIDE)], list(map(tuple, seen)), "the row of such a name")


def patterns_are_exact(trial: Trial) -> None:
    """A search for a part of a name tells cases apart, and takes every character for itself."""
    rows = trial.tables.rows
    for name in ("a%b_c", "axbyc", "A%B_C", "[a]*?/\\"):
        trial.insert(name)
    statement = sa.select(rows.c.name).where(patterns.matches(rows.c.name, "part", "contains"))
    for part, expected in (("%b_", ["a%b_c"]), ("[a]*?", ["[a]*?/\\"]), ("/\\", ["[a]*?/\\"])):
        with db.read_once(trial.context()) as session:
            seen = session.execute(statement, {"part": part}).scalars().all()
        require(expected, list(seen), f"names that contain {part!r}")
