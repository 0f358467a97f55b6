"""``/explain``: what each part of a request for allocation candidates left."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from placement_core import errors
from placement_core.http import validation
from placement_core.http.capacity_api import policies
from placement_core.http.dashboard import rendering, sections
from placement_core.http.dashboard.pictures import funnel
from placement_core.http.dashboard.pictures.funnel import FunnelStep
from placement_core.http.operations import Call, Reply
from placement_core.http.placement_api import microversions
from placement_core.http.placement_api.queries import candidates, schemas
from placement_core.placement.candidates import explain
from placement_core.placement.candidates.explain import CandidatesExplanation, FilterResult
from placement_core.placement.candidates.requests import CandidatesRequest
from placement_core.placement.room import fits
from placement_core.placement.room.fits import Fits

RULES = (policies.ROOM_FITS,)
#: The fields of the form; other parameters of a request come with a pasted query string.
_FIELDS = ("resources", "required", "member_of")
#: A pasted query string, or a URL with one.
_PASTED = "q"
_MOST_HOSTS = 20

_SCHEMA = validation.Schema(
    schemas.CANDIDATES.at(microversions.NEWEST), validation.is_strict_uuid)


@dataclasses.dataclass(frozen=True, slots=True)
class FilterFunnel:
    """What the filters of a group of the request, or of the trees, left one after the other.

    :ivar title: of which group.
    """

    title: str
    steps: Sequence[FunnelStep]
    picture: Markup


def show(call: Call) -> Reply:
    """Explain which allocation candidates a request has, and why not more."""
    fields = {name: (call.query.get(name) or [""])[-1].strip() for name in (*_FIELDS, _PASTED)}
    query = _read_query(call, fields[_PASTED])
    problem, explanation, request = None, None, None
    if query or fields[_PASTED]:
        try:
            request = _parse(call, query)
            explanation = _explain(call, request)
        except errors.Invalid as error:
            problem = str(error)
    return rendering.render(
        call, "explain.html", title="Explain", status=400 if problem else 200, fields=fields,
        others={name: values for name, values in query.items() if name not in _FIELDS},
        problem=problem, explanation=explanation,
        funnels=[] if explanation is None else list(_draw_funnels(explanation)),
        fits=None if request is None or explanation is None else sections.read(
            call, policies.ROOM_FITS, lambda: _count_fits(call, request)))


def _read_query(call: Call, pasted: str) -> Mapping[str, list[str]]:
    """Return the query of the request: the pasted one, or the parameters of the page itself."""
    if not pasted:
        return {name: [value for value in values if value.strip()]
                for name, values in call.query.items() if any(map(str.strip, values))}
    text = pasted.partition("?")[2] if "?" in pasted else pasted
    return validation.parse_query(text.encode().decode("latin-1"))


def _parse(call: Call, query: Mapping[str, list[str]]) -> CandidatesRequest:
    problem = _SCHEMA.validate({name: values[-1] for name, values in query.items()})
    if problem is not None:
        raise validation.InvalidQuery(problem)
    return candidates.parse_bounded(
        query, microversions.NEWEST, call.services.conf.placement)


def _explain(call: Call, request: CandidatesRequest) -> CandidatesExplanation:
    services = call.services
    most = services.conf.placement.max_allocation_candidates
    return explain.explain_candidates(
        services.index.snapshot(call.ctx), request,
        max_candidates=most if most >= 0 else None,
        exclude_reserved=services.host_access is not None)


def _count_fits(call: Call, request: CandidatesRequest) -> Fits:
    services = call.services
    return fits.find(
        services.index.snapshot(call.ctx), request, most_hosts=_MOST_HOSTS,
        exclude_reserved=services.host_access is not None)


def _draw_funnels(explanation: CandidatesExplanation) -> Sequence[FilterFunnel]:
    """Return a funnel for each group, and the last one for the trees."""
    trees = explanation.trees
    return [
        *(_draw_funnel(
            number, f"Group {group.group}" if group.group else "Providers", "all providers",
            explanation.providers, group.filters)
          for number, group in enumerate(explanation.groups)),
        _draw_funnel(len(explanation.groups), "Hosts", "all hosts", trees.total, trees.filters)]


def _draw_funnel(
    number: int, title: str, all_: str, total: int, filters: Sequence[FilterResult]
) -> FilterFunnel:
    steps = [FunnelStep(all_, total), *(
        FunnelStep(f"{step.filter}={step.value}" if step.value else step.filter, step.left)
        for step in filters)]
    return FilterFunnel(title, steps, funnel.draw_funnel(f"funnel-{number}", title, steps))
