"""What is wrong with a request for candidates: unknown names, or too much at once."""

from __future__ import annotations

from collections.abc import Collection

from placement_core import errors


class UnknownRequestedClass(errors.Invalid):
    """The request asks for a resource class that does not exist."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"Invalid resource class in resources parameter: No such resource class {name}.")
        self.name = name


class UnknownRequestedTraits(errors.Invalid):
    """The request names traits that do not exist.

    :param parameter: the query parameter to blame, where the API names it.
    """

    def __init__(self, names: Collection[str], *, parameter: str | None = None) -> None:
        blame = f'Invalid trait(s) in "{parameter}" parameter: ' if parameter else ""
        super().__init__(f"{blame}No such trait(s): {', '.join(sorted(names))}.")
        self.names = frozenset(names)


class TooManyGroups(errors.Invalid):
    """The request has more groups than one may have.

    :param most: how many that are.
    """

    def __init__(self, most: int) -> None:
        super().__init__(f"A request may have {most} groups of resources at most.")
        self.most = most


class TooManyCandidates(errors.Invalid):
    """The answer would be larger than one may be.

    :param most: how many candidates of this request fit into one.
    """

    def __init__(self, most: int) -> None:
        super().__init__(
            f"More than {most} candidates fit, which is more than one answer may have. Ask with "
            f"limit={most} or less.")
        self.most = most


class TooHard(errors.Invalid):
    """Nobody can say in reasonable time whether the groups fit.

    :param trees: in how many trees.
    """

    def __init__(self, trees: int) -> None:
        super().__init__(
            "The groups of this request could be combined in too many ways that come to "
            f"nothing in {trees} provider trees. Ask for fewer groups, or for equal amounts.")
        self.trees = trees
