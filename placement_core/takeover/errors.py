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


class SameOrigin(errors.ConfigurationError):
    """What is copied from two sources could not be told apart."""

    def __init__(self, origin: str, *, may_have_label: bool) -> None:
        advice = "; give each a label of its own: SERVICE@LABEL=URL" if may_have_label else ""
        super().__init__(f"{origin} is given twice: what is copied from one of them could not be "
                         f"told from what is copied from the other{advice}")


class OtherPlace(errors.Conflict):
    """A source is in another place than before, and may be another service."""

    code = "takeover.other_place"

    def __init__(self, origin: str, last: str, location: str) -> None:
        super().__init__(
            f"{origin}: ours was compared last with {last}, and --prune would delete what "
            f"{location} lacks. If that is the same service in another place, run "
            "\"migrate diff\" with it first.")


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


class StillUsed(errors.Conflict):
    """A record cannot be deleted, because others need it."""

    code = "takeover.still_used"

    def __init__(self, kind: str, id_: str, users: str) -> None:
        super().__init__(f"The {kind} {id_} cannot be deleted: {users} it.")


class NotHere(errors.Conflict):
    """A record needs another one that is not here."""

    code = "takeover.not_here"

    def __init__(self, kind: str, id_: str, missing: str) -> None:
        super().__init__(f"The {kind} {id_} cannot be copied: {missing} is not here.")


class ChangedHere(errors.Conflict):
    """A record has been changed here since it was copied."""

    code = "takeover.changed_here"

    def __init__(self, kind: str, id_: str, why: str) -> None:
        super().__init__(f"The {kind} {id_} stays as it is: {why}.")


class KeyTaken(errors.Conflict):
    """A database refuses a record, because something of ours has its key already."""

    code = "takeover.key_taken"

    def __init__(self, kind: str) -> None:
        super().__init__(f"The {kind} cannot be written: something here has the same key.")


class NotWhereItWas(errors.Conflict):
    """A run of a comparison is somewhere else than this process left it, or is forgotten."""

    code = "takeover.not_where_it_was"

    def __init__(self, source: str) -> None:
        super().__init__(
            f"The comparison with {source} is not where it was left: another process goes on with "
            "it, or has ended a later one. Begin a new one, or go on with --resume when no other "
            "process does.")


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
