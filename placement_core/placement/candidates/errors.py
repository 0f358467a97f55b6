"""Names in a request that nobody knows."""

from __future__ import annotations

from collections.abc import Collection

from placement_core import errors


class UnknownResourceClass(errors.Invalid):
    """The request asks for a resource class that does not exist."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"Invalid resource class in resources parameter: No such resource class {name}.")
        self.name = name


class UnknownTraits(errors.Invalid):
    """The request names traits that do not exist.

    :param parameter: the query parameter to blame, where the API names it.
    """

    def __init__(self, names: Collection[str], *, parameter: str | None = None) -> None:
        blame = f'Invalid trait(s) in "{parameter}" parameter: ' if parameter else ""
        super().__init__(f"{blame}No such trait(s): {', '.join(sorted(names))}.")
        self.names = frozenset(names)
