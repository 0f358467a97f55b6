"""The paths that are asked by machines which watch the service, without a token."""

from __future__ import annotations

#: Whether the process is alive: public, and without the database.
LIVENESS_PATH = "/healthcheck"
#: Whether a request would be served now: the database answers, and the capacity index is
#: loaded and fresh. It is public, for load balancers, so details are in the log only.
READINESS_PATH = "/readiness"
#: The metrics for Prometheus, if ``[metrics] enabled``.
METRICS_PATH = "/metrics"

ALL = (LIVENESS_PATH, READINESS_PATH, METRICS_PATH)
