"""The aliases that the default policy rules of every API are made of.

They are rules themselves, so that a policy file can use or replace them: one rule
says who is an administrator, or a service, for all operations.
Source: spec placement_api §6.
"""

from __future__ import annotations

from oslo_policy import policy

#: A token for a project; tokens for the system or a domain are refused.
SCOPES = ["project"]

ADMIN = "rule:admin_api"
SERVICE = "rule:service_api"
ADMIN_OR_SERVICE = "rule:admin_or_service_api"
ADMIN_OR_PROJECT_READER_OR_SERVICE = "rule:admin_or_project_reader_or_service_api"
#: Readers and members of the project in question.
ADMIN_OR_READER_OF_OWN = "rule:admin_or_project_reader_api"
ADMIN_OR_MEMBER_OF_OWN = "rule:admin_or_project_member_api"

# The rule that ``[oslo_policy] enforce_new_defaults = false`` keeps in force.
_LEGACY = policy.DeprecatedRule(
    name=ADMIN,
    check_str="role:admin",
    deprecated_reason="The role service, and readers for their own project, were added.",
    deprecated_since="Wallaby",
)

RULES: list[policy.RuleDefault] = [
    policy.RuleDefault(
        "admin_api", "role:admin", "An administrator.", scope_types=SCOPES),
    policy.RuleDefault(
        "service_api", "role:service", "Another service of the cloud.",
        scope_types=SCOPES, deprecated_rule=_LEGACY),
    policy.RuleDefault(
        "admin_or_service_api", "rule:admin_api or rule:service_api",
        "An administrator or another service.",
        scope_types=SCOPES, deprecated_rule=_LEGACY),
    policy.RuleDefault(
        "project_reader_api", "role:reader and project_id:%(project_id)s",
        "A reader of the project that is asked about.",
        scope_types=SCOPES, deprecated_rule=_LEGACY),
    policy.RuleDefault(
        "admin_or_project_reader_or_service_api",
        "rule:admin_api or rule:project_reader_api or rule:service_api",
        "An administrator, another service, or a reader of the project that is asked about.",
        scope_types=SCOPES, deprecated_rule=_LEGACY),
    policy.RuleDefault(
        "project_member_api", "role:member and project_id:%(project_id)s",
        "A member of the project that it is about.", scope_types=SCOPES),
    policy.RuleDefault(
        "admin_or_project_member_api", "rule:admin_api or rule:project_member_api",
        "An administrator, or a member of the project that it is about.", scope_types=SCOPES),
    policy.RuleDefault(
        "admin_or_project_reader_api",
        "rule:admin_api or rule:project_reader_api or rule:project_member_api",
        "An administrator, or a reader or member of the project that it is about.",
        scope_types=SCOPES),
]
