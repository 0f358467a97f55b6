"""What is wrong with a source, or with where its records are to go."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from placement_core import errors


class UnknownSchema(errors.ConfigurationError):
    """The database of a source has a schema that this version does not know."""

    def __init__(self, source: str, present: Collection[str], known: Collection[str]) -> None:
        has = f"has the schema {' with '.join(sorted(present))}" if present else "has no schema"
        super().__init__(
            f"{source}: the database {has}; this version knows {' with '.join(sorted(known))}")


class NowhereToCopy(errors.ConfigurationError):
    """The records of a source are to be in another service's hands, by the configuration."""

    def __init__(self, what: str, option: str, value: str, expected: str) -> None:
        super().__init__(f"{option} = {value}: expected {expected}, to copy {what} into")


class ImmutableField(errors.Conflict):
    """A record differs from the source's in a field that never changes."""

    code = "takeover.immutable_field"

    def __init__(self, kind: str, id_: str, field: str) -> None:
        super().__init__(
            f"The {kind} {id_} differs from the source's in {field}, which cannot be changed.")


class NothingToExport(errors.ConfigurationError):
    """What is to be exported is in another service's hands, by the configuration."""

    def __init__(self, what: str, option: str, value: str) -> None:
        super().__init__(f"{option} = {value}: {what} are in another service already")


class DatabaseNotEmpty(errors.Conflict):
    """The database that is to be written has rows which its service did not make by itself."""

    code = "takeover.database_not_empty"

    def __init__(self, name: str, obstacles: Sequence[str]) -> None:
        super().__init__(
            f"{name}: the database is not empty, and nothing was written: {'; '.join(obstacles)}")


class RowRefused(errors.Conflict):
    """The database that is written refuses a row."""

    code = "takeover.row_refused"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            f"{name}: the database refuses a row, and nothing was written: {reason}")
