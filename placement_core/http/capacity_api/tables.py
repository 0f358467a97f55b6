"""Lists as CSV (RFC 4180), with the names of the columns in the first line."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from placement_core.http.operations import CSV, Reply


def reply_csv(
    columns: Sequence[str], rows: Sequence[Mapping[str, Any]], next_url: str | None = None
) -> Reply:
    """Return the reply of a list.

    :param rows: each has all columns; None is an empty field.
    :param next_url: of the next page, which a header links (RFC 8288).
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    writer.writerows(rows)
    links = () if next_url is None else (("Link", f'<{next_url}>; rel="next"'),)
    return Reply(body=text.getvalue().encode(), media_type=CSV, headers=links)
