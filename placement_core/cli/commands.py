"""Which commands there are, where each stands, and what it does in one line.

``--version``, ``--help`` and completion read this table and import no command: most of the
service hangs at some of them.
"""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import pathlib

_PACKAGE = "placement_core.cli"

#: "module:class" in this package, by the words that call the command.
COMMANDS = {
    "serve": "serve:Serve",
    "manager": "manager:RunManager",
    "demo": "demo:FillDemo",
    "db sync": "database:SyncDatabase",
    "db version": "database:ShowDatabaseVersion",
    "db release": "database:ReleaseDatabase",
    "db audit": "database:AuditDatabase",
    "db check-engine": "engine:CheckEngine",
    "db online-data-migrations": "online_migrations:RunOnlineMigrations",
    # As upstream's placement-manage spells it.
    "db online_data_migrations": "online_migrations:RunOnlineMigrations",
    "status upgrade check": "status:CheckUpgrade",
    "top": "top:Top",
    "watch": "watch:Watch",
    "thresholds list": "thresholds:ListThresholds",
    "workers list": "workers:ListWorkers",
    "refusals list": "workers:ListRefusals",
    "explain candidates": "explain:ExplainCandidates",
    "claims list": "claims:ListClaims",
    "claims show": "claims:ShowClaim",
    "claims find": "gangs:FindClaims",
    "claims release": "claims:ReleaseClaim",
    "claims sweep": "claims:SweepClaims",
    "consumers list": "consumers:ListConsumers",
    "usages list": "usages:ListUsages",
    "usage intervals": "usage_intervals:ListUsageIntervals",
    "usage totals": "usage_intervals:ListUsageTotals",
    "providers list": "providers:ListProviders",
    "capacity room": "room:ShowRoom",
    "capacity hosts": "room:ListHostRoom",
    "capacity fits": "fits:ShowFits",
    "capacity stranded": "stranded:ShowStranded",
    "audit list": "audit:ListAudit",
    "events list": "events:ListEvents",
    "events retry": "events:RetryEvent",
    "leases list": "leases:ListLeases",
    "leases show": "leases:ShowLease",
    "leases create": "leases:CreateLease",
    "leases delete": "leases:DeleteLease",
    "leases whatif": "leases:ShowWhatIf",
    "leases next-fit": "leases:ShowNextFit",
    "leases timeline": "leases:ShowTimeline",
    "migrate check": "migrate:CheckMigration",
    "migrate copy": "migrate:CopyMigration",
    "migrate diff": "migrate:DiffMigration",
    "migrate shadow serve": "shadow:ServeShadow",
    "migrate shadow report": "shadow:ReportShadow",
    "migrate switch": "shadow:SwitchMigration",
    "migrate reverse": "shadow:ReverseMigration",
    "migrate complete": "shadow:CompleteMigration",
    "migrate cancel": "shadow:CancelMigration",
    "migrate status": "migration_status:ShowMigration",
    "export": "export:Export",
    "limits register": "limits:RegisterLimits",
    "limits list": "limits:ListLimits",
    "limits show": "limits:ShowLimits",
    "limits set": "limits:SetLimit",
    "limits unset": "limits:UnsetLimit",
    "limits audit": "limits:AuditLimits",
    "catalog region add": "catalog:AddRegion",
    "catalog region list": "catalog:ListRegions",
    "catalog region show": "catalog:ShowRegion",
    "catalog region remove": "catalog:RemoveRegion",
    "catalog service add": "catalog:AddService",
    "catalog service list": "catalog:ListServices",
    "catalog service show": "catalog:ShowService",
    "catalog service remove": "catalog:RemoveService",
    "catalog endpoint add": "catalog:AddEndpoint",
    "catalog endpoint list": "catalog:ListEndpoints",
    "catalog endpoint show": "catalog:ShowEndpoint",
    "catalog endpoint remove": "catalog:RemoveEndpoint",
    "catalog domain add": "catalog:AddDomain",
    "catalog domain list": "catalog:ListDomains",
    "catalog domain show": "catalog:ShowDomain",
    "catalog domain remove": "catalog:RemoveDomain",
    "catalog project add": "catalog:AddProject",
    "catalog project list": "catalog:ListProjects",
    "catalog project show": "catalog:ShowProject",
    "catalog project move": "catalog:MoveProject",
    "catalog project remove": "catalog:RemoveProject",
    "catalog load": "catalog_load:LoadCatalog",
    "cells add": "cells:AddCell",
    "cells list": "cells:ListCells",
    "cells check": "cells:CheckCells",
    "cells set": "cells:SetCell",
    "cells enable": "cells:EnableCell",
    "cells disable": "cells:DisableCell",
    "cells remove": "cells:RemoveCell",
    "cells sync": "cells:SyncCells",
    "instances list": "cells:ListInstances",
    "instances purge": "cells:PurgeInstances",
    "compute list": "compute:ListComputeNodes",
    "compute migrate": "compute:MigrateComputeNodes",
    "compute contract": "compute:ContractComputeNodes",
    "hosts register": "hosts:RegisterHost",
    "hosts list": "hosts:ListHosts",
    "hosts show": "hosts:ShowHost",
    "hosts set": "hosts:SetHost",
    "hosts remove": "hosts:RemoveHost",
    "outbox list": "outbox:ListComputeCalls",
    "outbox retry": "outbox:RetryComputeCalls",
    "outbox audit": "outbox:AuditComputeService",
    "plugins list": "plugins:ListPlugins",
    "plugins new": "plugins:WritePluginPackage",
    "quota show": "quota:ShowQuota",
    "quota list": "quota:ListQuotas",
    "quota check": "quota:CheckQuota",
    "quota explain": "quota:ExplainQuota",
    "completion": "completion:PrintCompletion",
    "config check": "configuration:CheckConfig",
    "config show": "configuration:ShowConfig",
    "config sample": "samples:WriteConfigSample",
    "policy sample": "samples:WritePolicySample",
}


def make_entry_point(name: str) -> importlib.metadata.EntryPoint:
    """Return what loads the class of a command when the command is called."""
    return importlib.metadata.EntryPoint(
        name, f"{_PACKAGE}.{COMMANDS[name]}", group=_PACKAGE)


def read_summary(name: str) -> str:
    """Return the first line of the docstring of a command's class, read without importing it."""
    module, _, class_name = COMMANDS[name].partition(":")
    summary, _, _ = _read_docstrings(module)[class_name].partition("\n")
    return summary.rstrip(".")


@functools.cache
def _read_docstrings(module: str) -> dict[str, str]:
    source = pathlib.Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    return {
        node.name: ast.get_docstring(node) or ""
        for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
