"""The service's options, with one module for each group, and how they are read.

Names and defaults are those of upstream Placement where it has the same option, so that an
existing placement.conf works. A later source overrides an earlier one: the defaults,
``placement.conf``, the files in ``placement.conf.d`` beside it, and the
environment (``OS_PLACEMENT_DATABASE__CONNECTION`` sets ``connection`` of
``[placement_database]``).
"""

from placement_core.conf.loading import load, uses_embedded
from placement_core.conf.options import list_opts, register

__all__ = ["list_opts", "load", "register", "uses_embedded"]
