"""Every URL of the dashboard, below its prefix, on one screen.

Who logs in at Keystone does so at ``/login`` and ``/logout``, which ``sessions`` answers.
"""

from __future__ import annotations

from placement_core.http.capacity_api import policies as capacity
from placement_core.http.dashboard import (
    need_answers,
    paths,
    projects as project_pages,
    queries,
    rendering,
    static_files,
)
from placement_core.http.dashboard.views import (
    explain,
    health,
    host,
    hosts,
    lease,
    leases,
    overview,
    overview_sections,
    project,
    projects,
)
from placement_core.http.leases_api import policies as lease_policies
from placement_core.http.operations import Operation

OPERATIONS = (
    Operation("GET", "", overview.show, policy=None, etag=rendering.tag_with_refusals,
              also=tuple(sorted({*need_answers.RULES, *overview_sections.RULES}))),
    Operation("GET", "/hosts", hosts.show, policy=capacity.ROOM_HOSTS, query=queries.HOSTS,
              etag=rendering.tag),
    Operation("GET", "/hosts/{uuid}", host.show, policy=capacity.PROVIDERS_LIST,
              query=queries.HOST, etag=rendering.tag, also=host.RULES),
    Operation("GET", "/leases", leases.show, policy=lease_policies.LEASES_GET,
              query=queries.LEASES, etag=rendering.tag, also=leases.RULES),
    Operation("GET", "/leases/{id}", lease.show, policy=lease_policies.LEASES_GET,
              query=queries.NOTHING, etag=rendering.tag, also=lease.RULES),
    Operation("GET", "/projects", projects.show, policy=capacity.QUOTA_LIST,
              query=queries.PROJECTS, etag=rendering.tag, also=(capacity.QUOTA_OF_ALL,)),
    Operation("GET", project_pages.PATH, project.show, policy=capacity.QUOTA_SHOW,
              query=queries.PROJECT, etag=rendering.tag, also=project.RULES),
    Operation("GET", "/explain", explain.show, policy=capacity.EXPLAIN_CANDIDATES,
              etag=rendering.tag, also=explain.RULES),
    Operation("GET", "/health", health.show, policy=None, query=queries.NOTHING,
              etag=rendering.tag_with_refusals, also=health.RULES),
    Operation("GET", f"{paths.STATIC}/{{name}}", static_files.show, policy=None),
)
