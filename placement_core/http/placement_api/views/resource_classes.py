"""/resource_classes and /resource_classes/{name}."""

from __future__ import annotations

from placement_core.http import validation
from placement_core.http.operations import Call, Reply
from placement_core.http.placement_api import bodies, microversions as mv, representations
from placement_core.placement import resource_classes

#: A name in the path is validated like the body of older versions.
_NAMED = validation.Schema(bodies.CLASS_CREATE.at(mv.NEWEST) or {}, validation.is_uuid_like)


def list_(call: Call) -> Reply:
    """Return every resource class, standard and custom."""
    classes = resource_classes.list_(call.ctx)
    documents = [representations.render_resource_class(item, call.prefix) for item in classes]
    return Reply(
        body={"resource_classes": documents},
        last_modified=representations.find_newest_change(classes), cacheable=True)


def create(call: Call) -> Reply:
    """Create a custom class."""
    item = resource_classes.create(call.ctx, call.body["name"])
    return Reply(201, location=representations.get_class_path(item.name))


def show(call: Call) -> Reply:
    """Return one class."""
    item = resource_classes.get(call.ctx, call.path["name"])
    return Reply(
        body=representations.render_resource_class(item, call.prefix),
        last_modified=representations.find_newest_change([item]), cacheable=True)


def update(call: Call) -> Reply:
    """Rename a custom class; from 1.7 on: make it, or confirm that it exists."""
    if call.microversion < mv.ENSURE_CLASS:
        item = resource_classes.rename(call.ctx, call.path["name"], call.body["name"])
        return Reply(body=representations.render_resource_class(item, call.prefix))
    problem = _NAMED.validate({"name": call.path["name"]})
    if problem is not None:
        raise validation.InvalidBody(problem)
    item, created = resource_classes.ensure(call.ctx, call.path["name"])
    return Reply(201 if created else 204, location=representations.get_class_path(item.name))


def delete(call: Call) -> Reply:
    """Remove a custom class."""
    resource_classes.delete(call.ctx, call.path["name"])
    return Reply(204)
