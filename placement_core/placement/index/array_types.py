"""Types of the arrays that the index and a search hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

#: One boolean for each row of a snapshot.
Mask = npt.NDArray[np.bool_]
#: Numbers of rows, or positions among them.
Rows = npt.NDArray[np.intp]
#: Amounts of a resource class.
Amounts = npt.NDArray[np.integer[Any]]
#: Texts of one length in ASCII, one in each row.
Characters = npt.NDArray[np.uint8]
