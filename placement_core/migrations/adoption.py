"""Take over a database of upstream Placement in place, or give it back.

Upstream's tables stay as they are. Adoption adds columns and tables, and fills them from
upstream's rows while these are locked. Upstream's data changes in two respects only: missing
values of ``root_provider_id`` are filled, and on MariaDB names and uuids get another collation, so
that they compare as text.

Some added columns are NOT NULL without a default, so that an upstream process that still inserts
allocations or inventories fails; ``fence`` refuses its other writes.
Source: design §4, "Adoption".
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Sequence

import sqlalchemy as sa
from alembic import migration, operations

from placement_core import errors
from placement_core.migrations import exclusive, fence, revisions, upgrades
from placement_core.migrations.revisions import Report, no_report
from placement_core.migrations.versions import (
    audit,
    catalog,
    comparisons,
    copied_records,
    initial,
    lease_texts,
    left_thresholds,
    limits,
    managers,
    quota,
    reservations,
    thresholds,
    unused_names,
    usage_intervals,
    usage_sums,
    workers,
)
from placement_core.placement import inventories, records, tables

#: The revision of upstream's schema that can be adopted (placement 9.0.0 and later).
UPSTREAM_HEAD = "a082b8bb98d0"
#: The revisions before it, the oldest first.
UPSTREAM_OLDER = ("b4ed3a175331", "611cd6dffd7b", "b5c396305c25", "422ece571366")

#: All tables of upstream, which are locked while sums are computed.
UPSTREAM_TABLES = (
    "resource_providers", "inventories", "allocations", "consumers", "consumer_types",
    "projects", "users", "resource_classes", "traits", "resource_provider_traits",
    "placement_aggregates", "resource_provider_aggregates",
)

#: All other tables at the newest revision, which ``release`` drops.
OWN_TABLES = (*initial.OWN_TABLES, *catalog.OWN_TABLES, *limits.OWN_TABLES,
              *quota.OWN_TABLES, *reservations.OWN_TABLES, *lease_texts.OWN_TABLES,
              *usage_sums.OWN_TABLES, *unused_names.OWN_TABLES, *managers.OWN_TABLES,
              *copied_records.OWN_TABLES, *comparisons.OWN_TABLES,
              *usage_intervals.OWN_TABLES, *audit.OWN_TABLES,
              *thresholds.OWN_TABLES, *workers.OWN_TABLES,
              *left_thresholds.OWN_TABLES)
#: The columns of upstream's tables at the newest revision that ``release`` drops.
ADDED_COLUMNS = (*initial.ADDED_COLUMNS.items(), *usage_intervals.ADDED_COLUMNS.items())

_COLLATION = "utf8mb4_bin"
_BATCH = 1000

Say = Callable[[str], None]

_inventories, _allocations, _consumers = (
    tables.inventories, tables.allocations, tables.consumers)


class NotAdoptable(errors.Conflict):
    """The database cannot be adopted in its present state; the message says what to do."""


@dataclasses.dataclass(frozen=True, slots=True)
class Oddities:
    """Inconsistencies in an adopted database, as numbers of rows.

    :ivar roots_filled: providers that had no root, which adoption has filled.
    :ivar without_consumer: consumers that have allocations, but no record.
    :ivar without_inventory: allocations of a class of which the provider has no inventory.
    :ivar over_committed: inventories whose usage exceeds their capacity.
    """

    roots_filled: int
    without_consumer: int
    without_inventory: int
    over_committed: int


def refuse_unless_adoptable(connection: sa.Connection) -> None:
    """Check that upstream's schema has the supported revision.

    :raises NotAdoptable: it has not; the message has the expected revision, and the present one
        if there is one.
    """
    revision = revisions.current(connection, revisions.UPSTREAM_VERSION_TABLE)
    if revision == UPSTREAM_HEAD:
        return
    if revision is None:
        state = "holds Placement tables but names no revision in alembic_version"
        advice = ("If its schema is that of a Placement release, run "
                  f"`placement-manage db stamp {UPSTREAM_HEAD}` first.")
    elif revision in UPSTREAM_OLDER:
        state = f"is at upstream Placement's revision {revision}, which is too old"
        advice = ("Run `placement-manage db online_data_migrations` and `placement-manage db "
                  "sync` of OpenStack Placement 9.0.0 or newer, then try again.")
    else:
        state = f"is at revision {revision}, which is not known here"
        advice = ("A newer OpenStack Placement may have written it; use a newer "
                  "placement-core, or downgrade it.")
    raise NotAdoptable(f"the database {state}; expected {UPSTREAM_HEAD}. {advice}")


def adopt(connection: sa.Connection, say: Say, report: Report = no_report) -> Oddities:
    """Convert a database of upstream Placement to the first revision of this schema.

    Called with the exclusive lock held. Every step is idempotent and computes its sums again, so
    an adoption that was interrupted can be repeated.

    :param say: called with a line for each long step, and for warnings.
    :param report: called with the progress of each step: what is updated, amount done, total.
    :raises NotAdoptable: a provider is its own ancestor.
    """
    context = migration.MigrationContext.configure(connection)
    alter = operations.Operations(context)
    initial.create_own_tables(alter)
    exclusive.lock_tables(connection, (*UPSTREAM_TABLES, *initial.OWN_TABLES))
    say("locked; adding columns")
    fence.remove(connection)
    _compare_as_text(connection, report)
    _add_columns(connection, alter)
    say("counting what is used")
    roots = _fill_roots(connection, report)
    _fill_inventories(connection, report)
    _fill_counters(connection, report)
    _drop_defaults(alter)
    oddities = _find_oddities(connection, roots)
    fence.put_up(connection, say)
    exclusive.unlock_tables(connection)
    return oddities


def release(connection: sa.Connection, say: Say) -> None:
    """Remove what ``adopt`` and later revisions added.

    Called with the exclusive lock held; idempotent. The version of this schema is removed before
    anything else, so that this service does not start on an incomplete schema. A release that was
    interrupted is recognized by upstream's version, which is restored before that, beside tables
    of ours, and can be repeated.
    """
    alter = operations.Operations(migration.MigrationContext.configure(connection))
    upgrades.stamp(connection, UPSTREAM_HEAD, revisions.UPSTREAM_VERSION_TABLE)
    upgrades.stamp(connection, None)
    exclusive.lock_tables(connection, UPSTREAM_TABLES)
    say("locked; removing our columns and tables")
    fence.remove(connection)
    for table, columns in ADDED_COLUMNS:
        present = {column["name"] for column in sa.inspect(connection).get_columns(table)}
        for name in columns:
            if name in present:
                alter.drop_column(table, name)
    exclusive.unlock_tables(connection)
    for name in (*OWN_TABLES, revisions.VERSION_TABLE):
        alter.drop_table(name, if_exists=True)


def remarks(oddities: Oddities) -> list[str]:
    """Return a sentence about each kind of inconsistency in an adopted database."""
    obstacles = (
        (oddities.roots_filled, "providers lacked their root provider; it was filled in"),
        (oddities.without_consumer, "consumers hold allocations without a consumer record: "
         "run `placement-core db online-data-migrations`"),
        (oddities.without_inventory, "allocations are of a class their provider has no "
         "inventory of; they were kept"),
        (oddities.over_committed, "inventories have more used than fits; they take no new "
         "allocations until usage falls"),
    )
    return [f"{count} {sentence}" for count, sentence in obstacles if count]


def _compare_as_text(connection: sa.Connection, report: Report) -> None:
    """Change the collation of MariaDB's tables; other databases need no change."""
    if connection.dialect.name not in ("mysql", "mariadb"):
        return
    status = sa.text(
        "SELECT table_collation FROM information_schema.tables "
        "WHERE table_schema = DATABASE() AND table_name = :name"
    )
    for number, name in enumerate(UPSTREAM_TABLES, 1):
        if connection.scalar(status, {"name": name}) != _COLLATION:
            connection.exec_driver_sql(
                f"ALTER TABLE {name} CONVERT TO CHARACTER SET utf8mb4 COLLATE {_COLLATION}"
            )
        report("tables that compare as text", number, len(UPSTREAM_TABLES))


def _add_columns(connection: sa.Connection, alter: operations.Operations) -> None:
    for table, columns in initial.ADDED_COLUMNS.items():
        present = {column["name"] for column in sa.inspect(connection).get_columns(table)}
        for name in columns:
            if name not in present:
                # With a default for existing rows, which is dropped at the end.
                alter.add_column(
                    table, sa.Column(name, sa.BigInteger, nullable=False, server_default="0")
                )


def _drop_defaults(alter: operations.Operations) -> None:
    for table, columns in initial.FENCED_COLUMNS.items():
        with alter.batch_alter_table(table) as batch:
            for name in columns:
                batch.alter_column(name, server_default=None, existing_type=sa.BigInteger(),
                                   existing_nullable=False)


def _fill_roots(connection: sa.Connection, report: Report) -> int:
    """Fill the root of every provider that lacks one, from its ancestors."""
    providers = tables.resource_providers
    rows = connection.execute(
        sa.select(providers.c.id, providers.c.parent_provider_id, providers.c.root_provider_id)
    ).all()
    roots = {row.id: row.root_provider_id for row in rows}
    parents = {row.id: row.parent_provider_id for row in rows}
    lacking = [row.id for row in rows if row.root_provider_id is None]
    values = [{"of_id": id_, "root": _find_root(id_, parents, roots)} for id_ in lacking]
    _execute_many(
        connection,
        sa.update(providers)
        .where(providers.c.id == sa.bindparam("of_id"))
        .values(root_provider_id=sa.bindparam("root"), updated_at=providers.c.updated_at),
        values, functools.partial(report, "roots of resource providers"),
    )
    return len(lacking)


def _find_root(provider: int, parents: dict[int, int | None], roots: dict[int, int | None]) -> int:
    seen = set()
    at = provider
    while True:
        root = roots.get(at)
        if root is not None:
            return root
        seen.add(at)
        parent = parents.get(at)
        if parent is None:
            return at
        if parent in seen:
            raise NotAdoptable(
                f"resource provider {provider} (id) is its own ancestor; correct "
                "resource_providers.parent_provider_id, then try again."
            )
        at = parent


def _fill_inventories(connection: sa.Connection, report: Report) -> None:
    of_inventory = sa.and_(
        _allocations.c.resource_provider_id == _inventories.c.resource_provider_id,
        _allocations.c.resource_class_id == _inventories.c.resource_class_id,
    )
    used = sa.select(sa.func.coalesce(sa.func.sum(_allocations.c.used), 0)).where(of_inventory)
    connection.execute(
        sa.update(_inventories).values(
            used=used.scalar_subquery(), updated_at=_inventories.c.updated_at
        )
    )
    rows = connection.execute(
        sa.select(_inventories.c.id, _inventories.c.total, _inventories.c.reserved,
                  _inventories.c.allocation_ratio)
    ).all()
    _execute_many(
        connection,
        sa.update(_inventories)
        .where(_inventories.c.id == sa.bindparam("of_id"))
        .values(capacity=sa.bindparam("fits"), updated_at=_inventories.c.updated_at),
        [{"of_id": row.id,
          "fits": inventories.stored_capacity(records.InventoryValues(
              row.total, row.reserved, allocation_ratio=row.allocation_ratio))}
         for row in rows],
        functools.partial(report, "capacities of inventories"),
    )


def _fill_counters(connection: sa.Connection, report: Report) -> None:
    """Fill the usage counters: sums by project, user, type and class, and numbers of consumers.

    The sums over all users of a project are filled, too.
    """
    held = _allocations.join(_consumers, _consumers.c.uuid == _allocations.c.consumer_id)
    owner = (
        _consumers.c.project_id,
        _consumers.c.user_id,
        sa.func.coalesce(_consumers.c.consumer_type_id, tables.UNTYPED).label("consumer_type_id"),
    )
    # Grouped by position: a repeated COALESCE with its bound value would not
    # be the same expression to PostgreSQL.
    amounts = sa.select(
        *owner, _allocations.c.resource_class_id, sa.func.sum(_allocations.c.used).label("used")
    ).select_from(held).group_by(sa.text("1"), sa.text("2"), sa.text("3"), sa.text("4"))
    counts = sa.select(
        *owner, sa.func.count(sa.distinct(_consumers.c.id)).label("used")
    ).select_from(held).group_by(sa.text("1"), sa.text("2"), sa.text("3"))
    rows = [
        {**row._mapping, "used": int(row.used), "slot": 0}
        for row in connection.execute(amounts)
    ]
    rows += [
        {**row._mapping, "used": int(row.used), "slot": 0,
         "resource_class_id": tables.CONSUMERS_ID}
        for row in connection.execute(counts)
    ]
    sums: dict[tuple[int, int, int], int] = collections.Counter()
    for row in rows:
        sums[row["project_id"], row["consumer_type_id"], row["resource_class_id"]] += row["used"]
    rows += [
        {"project_id": -project, "user_id": tables.EVERYBODY, "consumer_type_id": consumer_type,
         "resource_class_id": resource_class, "slot": 0, "used": used}
        for (project, consumer_type, resource_class), used in sums.items()
    ]
    connection.execute(sa.delete(tables.usage_counters))
    _execute_many(connection, sa.insert(tables.usage_counters), rows,
                  functools.partial(report, "sums of usage"))


def _find_oddities(connection: sa.Connection, roots_filled: int) -> Oddities:
    recordless = sa.select(sa.func.count(sa.distinct(_allocations.c.consumer_id))).select_from(
        _allocations.outerjoin(_consumers, _consumers.c.uuid == _allocations.c.consumer_id)
    ).where(_consumers.c.id.is_(None))
    homeless = sa.select(sa.func.count()).select_from(
        _allocations.outerjoin(
            _inventories,
            sa.and_(
                _inventories.c.resource_provider_id == _allocations.c.resource_provider_id,
                _inventories.c.resource_class_id == _allocations.c.resource_class_id,
            ),
        )
    ).where(_inventories.c.id.is_(None))
    over = sa.select(sa.func.count()).select_from(_inventories).where(
        _inventories.c.used > _inventories.c.capacity)
    return Oddities(
        roots_filled=roots_filled,
        without_consumer=connection.scalar(recordless) or 0,
        without_inventory=connection.scalar(homeless) or 0,
        over_committed=connection.scalar(over) or 0,
    )


def _execute_many(
    connection: sa.Connection, statement: sa.Update | sa.Insert,
    values: Sequence[dict[str, int]], report: Callable[[int, int], None],
) -> None:
    for start in range(0, len(values), _BATCH):
        batch = values[start : start + _BATCH]
        connection.execute(statement, batch)
        report(start + len(batch), len(values))
