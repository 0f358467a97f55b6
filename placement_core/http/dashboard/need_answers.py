"""The three answers to what somebody needs, as far as the caller may ask."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable
from typing import TypeVar

from placement_core import errors, needs
from placement_core.http.capacity_api import policies
from placement_core.http.dashboard import need_copies, projects, sections
from placement_core.http.dashboard.need_copies import Copies
from placement_core.http.dashboard.need_form import NeedForm
from placement_core.http.dashboard.sections import Section
from placement_core.http.operations import Call
from placement_core.needs import Need, PermissionAnswer, RoomAnswer, TimeAnswer
from placement_core.placement.candidates.errors import (
    UnknownRequestedClass,
    UnknownRequestedTraits,
)
from placement_core.quota.errors import UnknownProject

T = TypeVar("T")

#: The rules that the answers ask about.
RULES = (policies.ROOM_FITS, policies.EXPLAIN_QUOTA, policies.RESERVATIONS_NEXT_FIT,
         policies.RESERVATIONS_WHAT_IF, policies.QUOTA_OF_ALL)

#: {an error: the field of the form that it is about}.
_FIELDS: dict[type[errors.Invalid], str] = {
    UnknownRequestedClass: "other", UnknownRequestedTraits: "required",
    UnknownProject: "project", projects.AmbiguousName: "project"}


@dataclasses.dataclass(frozen=True, slots=True)
class NeedAnswers:
    """The answers, and the questions to be copied; None: there is nothing to ask."""

    room: Section[RoomAnswer]
    room_copies: Copies
    permission: Section[PermissionAnswer]
    permission_copies: Copies | None
    time: Section[TimeAnswer]
    time_copies: Copies | None

    @property
    def passing(self) -> bool:
        """Say whether a trouble may pass."""
        return self.room.passing or self.permission.passing or self.time.passing


def read(call: Call, form: NeedForm) -> NeedAnswers | None:
    """Read the answers; None: the form says nothing. Problems are added to the form."""
    need = form.need
    if need is None:
        return None
    room = _read(form, "other", lambda: sections.read(
        call, policies.ROOM_FITS, lambda: needs.find_room(call.services, call.ctx, need)))
    permission, asked_id = _read_permission(call, form, need)
    time, lease_project_id = _read_time(call, form, need)
    address = call.prefix
    return NeedAnswers(
        room, need_copies.copy_room(form, address), permission,
        None if permission.content is None or asked_id is None
        else need_copies.copy_permission(permission.content.deltas, asked_id, address),
        time,
        None if time.content is None or time.content.obstacle is not None
        else _copy_time(need, time.content, lease_project_id, address))


def _read_permission(
    call: Call, form: NeedForm, need: Need
) -> tuple[Section[PermissionAnswer], str | None]:
    """Read whether a project may have it, the own one if none is named; return its id, too."""
    named, own_id = form.values["project"], call.ctx.identity.project_id or ""
    if not named and not own_id:
        return Section(None, "Write in the field “for project” for which project it is."), None
    ids: list[str] = []

    def read_content() -> Section[PermissionAnswer]:
        def check() -> PermissionAnswer | None:
            visible = projects.list_visible(call)
            ids.append(projects.find_id(call, named, visible) if named else own_id)
            if visible is not None and ids[0] not in visible:
                return None
            return needs.check_permission(
                call.services, call.ctx, need, ids[0], visible=visible)

        try:
            section = sections.read(call, policies.EXPLAIN_QUOTA, check)
        except UnknownProject:
            if named:
                raise
            # Of noauth2, or of a Keystone whose projects this catalog does not have.
            return Section(None, (
                f"Your own project, {own_id}, is not in the catalog: write the name or id of "
                "another one in the field “for project”."))
        if section.content is None and section.trouble is None:
            return Section(None, "You may not ask about this project, or there is none.")
        return Section(section.content, section.trouble, section.passing)

    return _read(form, "project", read_content), ids[0] if ids else None


def _read_time(
    call: Call, form: NeedForm, need: Need
) -> tuple[Section[TimeAnswer], str]:
    """Read when a lease fits; return the project whose lease it would be, too."""
    project_id = call.ctx.identity.project_id or ""

    def find() -> TimeAnswer:
        nonlocal project_id
        project_id, unchecked = _find_project_of_lease(call, form.values["project"])
        return needs.find_time(call.services, call.ctx, need, project_id, unchecked=unchecked)

    section = _read(form, "duration", lambda: sections.read(
        call, policies.RESERVATIONS_NEXT_FIT, find))
    return section, project_id


def _find_project_of_lease(call: Call, named: str) -> tuple[str, str | None]:
    """Return the project whose lease is asked for, and why its rules cannot be asked for.

    What fits does not depend on the project. It is the own one if none is named, or if the caller
    may not ask about the one that is.
    """
    own_id = call.ctx.identity.project_id or ""
    if not call.allows(policies.RESERVATIONS_WHAT_IF):
        return own_id, f"the policy rule {policies.RESERVATIONS_WHAT_IF} does not let you ask"
    if not named:
        return own_id, None if own_id else "no project is named"
    visible = projects.list_visible(call)
    id_ = projects.find_id(call, named, visible)
    if id_ == own_id or visible is None or id_ in visible:
        return id_, None
    return own_id, "you may not ask about this project, or there is none"


def _copy_time(need: Need, answer: TimeAnswer, project_id: str, address: str) -> Copies:
    if answer.refusal is not None and answer.fit is not None:
        # Only this question is answered by the rules.
        window = answer.fit.window
        is_now = window.start_at <= datetime.datetime.now(datetime.UTC)
        return need_copies.copy_lease(
            need, None if is_now else window.start_at, window.end_at, project_id, address)
    return need_copies.copy_time(need, project_id, address)


def _read(form: NeedForm, field: str, read_section: Callable[[], Section[T]]) -> Section[T]:
    """Read an answer; what is wrong with the need is told beside a field.

    :param field: the field that an error is about which names no other.
    """
    try:
        return read_section()
    except errors.Invalid as error:
        form.problems.setdefault(_FIELDS.get(type(error), field), str(error))
        return Section(None, str(error))
