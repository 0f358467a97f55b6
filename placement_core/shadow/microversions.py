"""The microversions of Placement that the proxy tells apart, by what they bring."""

from __future__ import annotations

#: Consumers have a generation.
CONSUMER_GENERATIONS = (1, 28)
#: Consumers have a type, and the newest version in which nobody asks for one.
CONSUMER_TYPES, BEFORE_CONSUMER_TYPES = (1, 38), (1, 37)
#: All ``required`` of a group of candidates count, not the last alone.
ANY_TRAITS = (1, 39)
#: Of answers that do not say which they have.
FIRST = (1, 0)
