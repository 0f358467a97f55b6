"""The drivers that the options choose; the only module that reads these options."""

from __future__ import annotations

import dataclasses

from oslo_config import cfg

from placement_core.plugin_api.candidate_order import CandidateOrder
from placement_core.plugin_api.catalog import CatalogDriver
from placement_core.plugin_api.compute import ComputeDriver
from placement_core.plugin_api.counting import CountingDriver
from placement_core.plugin_api.enforcement import EnforcementModel
from placement_core.plugin_api.limits import LimitDriver
from placement_core.plugin_api.reservations import ReservationPlugin

#: The class that the drivers of a kind derive from.
KINDS: dict[str, type] = {
    "candidate_order": CandidateOrder,
    "catalog": CatalogDriver,
    "compute": ComputeDriver,
    "counting": CountingDriver,
    "enforcement": EnforcementModel,
    "limits": LimitDriver,
    "reservations": ReservationPlugin,
}


@dataclasses.dataclass(frozen=True, slots=True)
class DriverChoice:
    """A driver that an option names, such as ``[limits] driver``."""

    kind: str
    name: str
    option: str


def choose_catalog(conf: cfg.ConfigOpts) -> DriverChoice:
    """Return the choice of ``[catalog]``."""
    return DriverChoice("catalog", conf.catalog.driver, "[catalog] driver")


def choose_candidate_order(conf: cfg.ConfigOpts) -> DriverChoice:
    """Return the choice of ``[placement]``."""
    return DriverChoice(
        "candidate_order", conf.placement.candidate_order, "[placement] candidate_order")


def choose_limits(conf: cfg.ConfigOpts) -> DriverChoice:
    """Return the choice of ``[limits]``."""
    return DriverChoice("limits", conf.limits.driver, "[limits] driver")


def choose_models(conf: cfg.ConfigOpts) -> tuple[DriverChoice, DriverChoice]:
    """Return the choices of the enforcement model and of the one that is advertised."""
    model = DriverChoice(
        "enforcement", conf.limits.enforcement_model, "[limits] enforcement_model")
    if not conf.limits.advertised_model:
        return model, model
    return model, DriverChoice(
        "enforcement", conf.limits.advertised_model, "[limits] advertised_model")


def choose_counting(conf: cfg.ConfigOpts) -> DriverChoice:
    """Return the choice of ``[quota]``."""
    if conf.quota.counting_driver:
        return DriverChoice("counting", conf.quota.counting_driver, "[quota] counting_driver")
    return DriverChoice(
        "counting", "placement" if conf.quota.count_usage_from_placement else "legacy_cell",
        "[quota] counting_driver (by count_usage_from_placement)")


def choose_reservation_plugins(conf: cfg.ConfigOpts) -> list[DriverChoice]:
    """Return the choices of ``[reservations]``."""
    return [DriverChoice("reservations", name, "[reservations] plugins")
            for name in conf.reservations.plugins]


def choose_compute(conf: cfg.ConfigOpts) -> DriverChoice:
    """Return the choice of the compute service."""
    return DriverChoice(
        "compute", conf.reservations.compute_driver, "[reservations] compute_driver")


def list_choices(conf: cfg.ConfigOpts) -> list[DriverChoice]:
    """Return the choices of all kinds."""
    return [choose_catalog(conf), choose_limits(conf), *choose_models(conf),
            choose_counting(conf), *choose_reservation_plugins(conf), choose_compute(conf),
            choose_candidate_order(conf)]
