"""What is wrong with a source, or with where its records are to go."""

from __future__ import annotations

from collections.abc import Collection

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
