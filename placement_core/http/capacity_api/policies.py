"""The policy rules of the capacity API: their names and who passes by default."""

from __future__ import annotations

from oslo_policy import policy

from placement_core.http import roles

EXPLAIN_CANDIDATES = "capacity:explain:allocation_candidates"

RULES: list[policy.DocumentedRuleDefault] = [
    policy.DocumentedRuleDefault(
        EXPLAIN_CANDIDATES, roles.ADMIN_OR_SERVICE,
        "Explain which allocation candidates there are, and why not more.",
        [{"method": "GET", "path": "/capacity/v1/explain/allocation_candidates"}],
        scope_types=roles.SCOPES),
]
