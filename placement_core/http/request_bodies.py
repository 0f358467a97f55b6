"""Reading request bodies, whose size is bounded before they are parsed.

Each operation says how large its bodies can be (``Operation.largest_body``). A body
within its size still may hold millions of tiny values, each of which costs many times
its bytes once it is parsed, so their number is bounded, too.
"""

from __future__ import annotations

from typing import Any

from placement_core.http.errors import HTTPError

#: Values in the JSON of clients are longer than this on average: the shortest
#: inventory (``"CUSTOM_X":{"total":1},``) has eleven bytes for each.
_BYTES_PER_VALUE = 8


def read(environ: dict[str, Any], largest: int) -> bytes:
    """Read the request body.

    :param largest: in bytes; a body that is declared to be longer is not read.
    :raises HTTPError: 413 for too many bytes or values, 400 if the body ends early.
    """
    body = _read(environ, largest)
    # Commas and brackets within strings count, too: the bound leaves room for them.
    values = body.count(b",") + body.count(b"[") + body.count(b"{")
    if values > largest // _BYTES_PER_VALUE:
        raise HTTPError(
            413, f"The request body may have {largest // _BYTES_PER_VALUE} values at most.")
    return body


def _read(environ: dict[str, Any], largest: int) -> bytes:
    stream = environ["wsgi.input"]
    length = environ.get("CONTENT_LENGTH")
    if length:
        declared = int(length[:20])
        if declared > largest:
            raise _make_too_large(largest)
        body: bytes = stream.read(declared)
        if len(body) < declared:
            raise HTTPError(400, "The request body is shorter than its content-length.")
        return body
    if environ.get("wsgi.input_terminated") or environ.get("HTTP_TRANSFER_ENCODING"):
        body = stream.read(largest + 1)
        if len(body) > largest:
            raise _make_too_large(largest)
        return body
    return b""


def _make_too_large(largest: int) -> HTTPError:
    return HTTPError(413, f"The request body may have {largest} bytes at most.")
