"""The fields of a line of the access log, for logs that machines read."""

from __future__ import annotations

from typing import Any

from placement_core import errors
from placement_core.http import identity, requestlog
from placement_core.masking import mask_query
from placement_core.safe_logging import printable


def list_fields(environ: dict[str, Any], response: requestlog.Response) -> dict[str, Any]:
    """Return the fields of a request, after it was processed.

    What is not known, or does not apply, is None.

    :param environ: with what the pipeline left there.
    """
    api, operation = environ.get(requestlog.OPERATION_KEY, (None, None))
    caller = identity.get_identity(environ)
    code = environ.get(requestlog.ERROR_CODE_KEY)
    if code is None and response.status >= 400:
        code = errors.Error.code
    path = f"{environ.get('SCRIPT_NAME', '')}{environ.get('PATH_INFO', '')}"
    query = environ.get("QUERY_STRING")
    return {
        "remote_address": environ.get("REMOTE_ADDR"),
        "method": printable(environ["REQUEST_METHOD"]),
        "path": printable(path),
        "query": mask_query(printable(query)) if query else None,
        "api": api,
        "operation": operation,
        "status": response.status,
        "code": code,
        "seconds": round(response.seconds, 6),
        "length": response.length,
        "microversion": environ.get(requestlog.MICROVERSION_KEY),
        "project_id": _make_printable(caller.project_id),
        "user_id": _make_printable(caller.user_id),
        "request_id": response.request_id,
        "global_request_id": response.global_request_id,
        "trace_id": response.trace_id,
    }


def _make_printable(text: str | None) -> str | None:
    return text and printable(text)
