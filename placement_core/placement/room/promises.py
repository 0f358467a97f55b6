"""Shares out what is promised of a tree among its providers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np

from placement_core.placement.index.array_types import Amounts, Mask, Rows
from placement_core.placement.room.sums import RoomColumn


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class TreePromises:
    """What is promised of trees, whether it is in use already or not.

    :ivar tree_of_row: the position of each row's tree in the arrays below; -1: nothing of it is
        promised.
    :ivar whole: whether all of a tree is promised.
    :ivar amounts: what else is promised of each tree, by class id: int64.
    """

    tree_of_row: Rows
    whole: Mask
    amounts: Mapping[int, Amounts]


def compute_promised(
    column: RoomColumn, promised: Amounts | None, used: Amounts, promises: TreePromises
) -> Amounts:
    """Return what of each inventory is free, and promised.

    A whole tree is promised with all that is free. Of an amount, what is in use is no longer
    promised; the rest is taken from the tree's providers in the order of their rows.

    :param promised: of each tree, an amount of this class; None: nothing but whole trees.
    :param used: of each tree: what counts as use of the amount.
    """
    trees = promises.tree_of_row[column.rows]
    free = column.get("free")
    shares = np.zeros_like(free)
    order = np.argsort(trees, kind="stable")
    order = order[trees[order] >= 0]
    if not len(order):
        return shares
    trees, free = trees[order], free[order]
    left = np.zeros_like(used) if promised is None else np.maximum(promised - used, 0)
    share = np.minimum(np.maximum(left[trees] - _sum_before(free, trees), 0), free)
    shares[order] = np.where(promises.whole[trees], free, share)
    return shares


def sum_used(columns: Iterable[RoomColumn], promises: TreePromises) -> Amounts:
    """Return what is used of each tree, of some classes together."""
    sums = np.zeros(len(promises.whole), dtype=np.int64)
    for column in columns:
        trees = promises.tree_of_row[column.rows]
        used = column.get("used")
        of_column = np.zeros(len(sums), dtype=used.dtype)
        np.add.at(of_column, trees[trees >= 0], used[trees >= 0])
        sums = sums + of_column
    return sums


def _sum_before(amounts: Amounts, trees: Rows) -> Amounts:
    """Return the sum of the amounts before each one in its tree.

    :param trees: ascending.
    """
    before = np.cumsum(amounts) - amounts
    starts = np.flatnonzero(np.diff(trees, prepend=-1))
    lengths = np.diff(starts, append=len(trees))
    return before - np.repeat(before[starts], lengths)
