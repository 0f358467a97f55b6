"""Looks for requests whose answers break what the OpenAPI document says.

    python -m tests.fuzz.contract --seconds 600 [--seed 1] [--operation get_usages] [--examples 20]
        [--kind postgresql]

Schemathesis makes requests from the document that the service itself serves: half of them valid,
half of them not. No answer may be a 5xx, have another status or another body than the document
says, or accept what its schema refuses. Each operation begins in the same small world, and every
request that wrote something is undone, so what is printed (the name of the operation, and the
seed) repeats a failure. A world on PostgreSQL or MariaDB needs a server, as the tests do.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import hypothesis
import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode, checks

from placement_core.http.placement_api import microversions as mv
from placement_core.http.versions import HEADER, format_version
from tests import databases
from tests.fuzz import worlds

_SEEDS = 1_000_000
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
]

#: What a request may be refused with that is not valid.
REFUSALS = ["400", "403", "404", "406", "409", "413", "415"]

schemathesis.openapi.format(
    "uuid", st.sampled_from(worlds.UUIDS) | st.uuids(version=4).map(str))


def list_operations(world: worlds.World, number: str) -> Iterator[Any]:
    """Yield the operations of the document that the service serves, as Schemathesis has them.

    :param number: the microversion, such as 1.39.
    """
    document = schemathesis.openapi.from_wsgi(
        f"/capacity/v1/openapi.json?microversion={number}", world.app)
    document.config.checks.negative_data_rejection.expected_statuses = REFUSALS
    for result in document.get_all_operations():
        yield result.ok()


def play(
    world: worlds.World, operation: Any, number: str, *, seed: int, examples: int,
    statuses: Counter[int] | None = None,
) -> list[str]:
    """Send so many valid requests, and as many others; each finds the world as it was.

    :param number: the microversion, for the command that repeats a failure.
    :param statuses: each answer is counted here.
    :returns: what broke the contract, and how to repeat it.
    """
    headers = dict(world.headers)
    for parameter in operation.headers:
        if parameter.name == HEADER:
            headers[HEADER] = parameter.definition["schema"]["default"]
    known = dict(world.find_variables(operation.path)) or None
    valid = operation.as_strategy(
        GenerationMode.POSITIVE, path_parameters=known, headers=headers)
    if known is not None:
        valid |= operation.as_strategy(GenerationMode.POSITIVE, headers=headers)
    # Few valid requests make sense: some say what does in this world.
    valid |= valid.map(lambda case: _plant(world, case))
    invalid = operation.as_strategy(
        GenerationMode.NEGATIVE, path_parameters=known, headers=headers)
    failures = []
    for strategy in (valid, invalid):
        try:
            _check(world, strategy, seed, examples, Counter() if statuses is None else statuses)
        except hypothesis.errors.Unsatisfiable:
            # Nothing about a request without a body and parameters can be wrong.
            if strategy is valid:
                raise
        # Schemathesis raises groups of failures; whatever it is, it is a finding.
        except (Exception, BaseExceptionGroup) as error:
            failures.append(
                f"{error}\nRepeat it: python -m tests.fuzz.contract --seed {seed} "
                f"--examples {examples} --microversion {number} --kind {world.kind} "
                f"--operation {get_name(operation)}\n")
    return failures


def get_name(operation: Any) -> str:
    """Return the operationId."""
    name: str = operation.definition.raw["operationId"]
    return name


def _plant(world: worlds.World, case: Any) -> Any:
    """Let a case name what the world has."""
    path = case.operation.path
    if isinstance(case.body, (dict, list)):
        case.body = world.plant(path, case.body)
    if case.operation.query:
        case.query = world.plant_query(
            path, case.query, [parameter.name for parameter in case.operation.query])
    return case


def _check(
    world: worlds.World, strategy: Any, seed: int, examples: int, statuses: Counter[int]
) -> None:
    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples, deadline=None, database=None, print_blob=False,
        suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(strategy)
    def check(case: Any) -> None:
        response = case.call()
        statuses[response.status_code] += 1
        try:
            case.validate_response(response, checks=CHECKS)
        finally:
            if case.method != "GET":
                world.restore()

    check()


def main(arguments: list[str]) -> int:
    """Play for some time, with seed after seed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.contract")
    parser.add_argument("--seconds", type=float, default=60, help="how long to look (60)")
    parser.add_argument("--seed", type=int, help="the first seed (another one each time)")
    parser.add_argument("--examples", type=int, default=20, help="of each kind (20)")
    parser.add_argument("--operation", help="only the one with this operationId, once")
    parser.add_argument(
        "--kind", choices=databases.KINDS, default="sqlite", help="of the database (sqlite)")
    parser.add_argument("--microversion", help="(each seed has one, the next seed the one before)")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    until = time.monotonic() + options.seconds
    first = random.randrange(_SEEDS) if options.seed is None else options.seed
    print(f"The first seed is {first}.", flush=True)
    seed, bad = first, 0
    played: Counter[str] = Counter()
    statuses: Counter[int] = Counter()
    with worlds.make_world(options.kind) as world:
        while time.monotonic() < until:
            number = options.microversion or format_version(
                mv.ALL[-1 - seed % len(mv.ALL)].version)
            for operation in list_operations(world, number):
                if options.operation not in (None, get_name(operation)):
                    continue
                played[get_name(operation)] += 1
                failures = play(
                    world, operation, number, seed=seed, examples=options.examples,
                    statuses=statuses)
                bad += len(failures)
                for failure in failures:
                    print(failure, flush=True)
                if time.monotonic() > until:
                    break
            if options.operation is not None:
                break
            seed += 1
    print(f"{len(played)} operations, played {played.total()} times with "
          f"{seed - first} microversions: {statuses.total()} requests, {bad} failures")
    print("statuses:", ", ".join(
        f"{status} {count}" for status, count in sorted(statuses.items())))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
