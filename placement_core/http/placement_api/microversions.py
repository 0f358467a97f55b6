"""Every microversion of the Placement API: its number, its name, what it brought.

The one place with version numbers. Code elsewhere compares names
(``version >= microversions.TRAITS``); ``history`` makes the published history
from the sentences. Source: spec placement_api §2.
"""

from __future__ import annotations

import dataclasses

from placement_core.http import versions
from placement_core.http.operations import Version


@dataclasses.dataclass(frozen=True, slots=True)
class Microversion:
    """One step of the API: ``summary`` is the heading, ``change`` the story."""

    version: Version
    summary: str
    change: str


#: All of them, oldest first.
ALL: list[Microversion] = []


def _add(minor: int, summary: str, change: str) -> Version:
    ALL.append(Microversion((1, minor), summary, change))
    return (1, minor)


BASE = _add(0, "The first version", (
    "Resource providers, their inventories and usages, and the allocations of consumers."))
AGGREGATES = _add(1, "Aggregates of a provider", (
    "``GET`` and ``PUT /resource_providers/{uuid}/aggregates`` show and replace the "
    "aggregates a provider is a member of. A provider's links name them."))
RESOURCE_CLASSES = _add(2, "Custom resource classes", (
    "``/resource_classes`` lists the classes; custom ones, whose names begin with "
    "``CUSTOM_``, can be made, renamed and deleted."))
MEMBER_OF = _add(3, "Providers by aggregate", (
    "``GET /resource_providers`` takes ``member_of``: an aggregate, or ``in:`` and several "
    "of which one must match."))
RESOURCES_QUERY = _add(4, "Providers by room", (
    "``GET /resource_providers`` takes ``resources``: only providers that have room for the "
    "amounts are listed."))
DELETE_INVENTORIES = _add(5, "All inventories deleted at once", (
    "``DELETE /resource_providers/{uuid}/inventories``."))
TRAITS = _add(6, "Traits", (
    "``/traits`` and ``/resource_providers/{uuid}/traits`` describe what a provider is, apart "
    "from how much it has. A provider's links name them."))
ENSURE_CLASS = _add(7, "Resource classes made by PUT", (
    "``PUT /resource_classes/{name}`` has no body any more: it makes the class, or confirms "
    "that it is there. Classes can no longer be renamed."))
OWNERS = _add(8, "Allocations have owners", (
    "``PUT /allocations/{consumer}`` requires ``project_id`` and ``user_id``."))
PROJECT_USAGES = _add(9, "Usages of a project", (
    "``GET /usages`` sums what the consumers of a project, or of one user in it, hold."))
CANDIDATES = _add(10, "Allocation candidates", (
    "``GET /allocation_candidates`` answers where requested amounts fit, as allocations that "
    "can be sent back."))
ALLOCATIONS_LINK = _add(11, "Link to a provider's allocations", (
    "A provider's links name its ``allocations``."))
ALLOCATIONS_DICT = _add(12, "One form for allocations", (
    "``PUT /allocations/{consumer}`` takes allocations keyed by provider, the form that ``GET`` "
    "answers; ``GET`` shows ``project_id`` and ``user_id``; candidates use the same form."))
POST_ALLOCATIONS = _add(13, "Allocations of several consumers", (
    "``POST /allocations`` replaces the allocations of many consumers, all or nothing."))
NESTED_PROVIDERS = _add(14, "Trees of providers", (
    "A provider can have a parent. ``parent_provider_uuid`` and ``root_provider_uuid`` are "
    "shown, and ``GET /resource_providers`` takes ``in_tree``."))
CACHE_HEADERS = _add(15, "Headers for caches", (
    "Answers carry ``Last-Modified`` and ``Cache-Control: no-cache``."))
CANDIDATES_LIMIT = _add(16, "Limited candidates", (
    "``GET /allocation_candidates`` takes ``limit``, the most candidates to answer."))
CANDIDATES_TRAITS = _add(17, "Candidates by trait", (
    "``GET /allocation_candidates`` takes ``required``, and its summaries show the traits of "
    "each provider."))
PROVIDERS_REQUIRED = _add(18, "Providers by trait", (
    "``GET /resource_providers`` takes ``required``."))
AGGREGATES_GENERATION = _add(19, "Aggregates guarded by the generation", (
    "The aggregates of a provider are shown with ``resource_provider_generation``, and "
    "replacing them requires it; an outdated one is a conflict."))
PROVIDER_IN_BODY = _add(20, "A new provider is answered", (
    "``POST /resource_providers`` answers 200 with the provider in the body."))
CANDIDATES_MEMBER_OF = _add(21, "Candidates by aggregate", (
    "``GET /allocation_candidates`` takes ``member_of``."))
FORBIDDEN_TRAITS = _add(22, "Forbidden traits", (
    "``required`` takes ``!TRAIT``: providers that have it are left out."))
ERROR_CODES = _add(23, "Codes in errors", (
    "Every error has a ``code`` that stays the same when its wording changes."))
MEMBER_OF_REPEATED = _add(24, "Several aggregates at once", (
    "``member_of`` may be repeated; a provider must satisfy each of them."))
GRANULAR = _add(25, "Granular groups", (
    "``GET /allocation_candidates`` takes numbered groups (``resources1``, ``required1``, "
    "``member_of1``), each of which is satisfied by one provider, and ``group_policy``, which "
    "says whether several groups may share one."))
FULLY_RESERVED = _add(26, "Fully reserved inventories", (
    "``reserved`` may be as large as ``total``."))
ALL_CLASSES = _add(27, "Whole summaries", (
    "The summaries of candidates show all classes of a provider, not only requested ones."))
CONSUMER_GENERATION = _add(28, "Consumers guarded by their generation", (
    "Writing allocations requires ``consumer_generation``, null for a new consumer; reading "
    "shows it. ``PUT /allocations/{consumer}`` with empty allocations takes them away safely."))
NESTED_CANDIDATES = _add(29, "Candidates from trees", (
    "A candidate may use several providers of one tree; summaries cover the whole tree and "
    "show parent and root."))
RESHAPER = _add(30, "Reshaper", (
    "``POST /reshaper`` moves inventories, and the allocations on them, between providers in "
    "one step."))
CANDIDATES_IN_TREE = _add(31, "Candidates of one tree", (
    "``GET /allocation_candidates`` takes ``in_tree``, also with the number of a group."))
FORBIDDEN_AGGREGATES = _add(32, "Forbidden aggregates", (
    "``member_of`` takes ``!`` and ``!in:``: members are left out."))
NAMED_SUFFIXES = _add(33, "Groups with names", (
    "The suffix of a group may be 1 to 64 letters, digits, ``_`` and ``-``."))
MAPPINGS = _add(34, "Which group went where", (
    "Candidates have ``mappings``, from the suffix of a group to its providers; they may be "
    "sent back with the allocations."))
ROOT_REQUIRED = _add(35, "Traits of the root", (
    "``GET /allocation_candidates`` takes ``root_required``."))
SAME_SUBTREE = _add(36, "Groups under one ancestor", (
    "``GET /allocation_candidates`` takes ``same_subtree``; a group named there needs no "
    "resources."))
REPARENTING = _add(37, "Providers can be moved", (
    "``PUT /resource_providers/{uuid}`` may change or clear ``parent_provider_uuid``."))
CONSUMER_TYPES = _add(38, "Types of consumers", (
    "Writing allocations requires ``consumer_type``; reading shows it; ``GET /usages`` groups "
    "by it and takes it as a filter."))
ANY_TRAITS = _add(39, "Any of several traits", (
    "``required`` takes ``in:A,B`` and may be repeated."))

LOWEST = ALL[0].version
NEWEST = ALL[-1].version
#: Each as clients write it.
BY_NUMBER = {versions.format_version(step.version): step.version for step in ALL}
#: The service's name in the ``OpenStack-API-Version`` header.
SERVICE_TYPE = "placement"

#: Returns a version as clients write it, such as ``1.39``.
format_version = versions.format_version


def render_history() -> str:
    """Return the published history: reStructuredText, oldest version first."""
    title = "Microversions of the Placement API"
    parts = [title, "=" * len(title), ""]
    for step in ALL:
        heading = f"{format_version(step.version)}: {step.summary}"
        parts += [heading, "-" * len(heading), "", step.change, ""]
    return "\n".join(parts)
