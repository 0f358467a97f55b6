"""Run tests with the oldest dependencies that setup.cfg allows: ``make test-oldest``.

    python -m tests.packages.oldest [REGEX...]

The environment is made anew in ``build/oldest``. Dependencies of the service and of its extras
have the versions of their lower bounds; what only the tests need is the newest.
"""

from __future__ import annotations

import subprocess
import sys

from tests.packages import environments

#: What shows soon that the service works: requests, schemas, drivers, its programs.
_TESTS = (
    r"tests\.unit\.http",
    # The newest oslo.limit, with which ours is compared, needs a newer openstacksdk.
    r"tests\.unit\.enforcer\.test_(?!as_oslo_limit)",
    r"tests\.http\.placement_api",
    r"tests\.http\.test_",
    r"tests\.plugins\.test_(compute|keystone|limits_local|catalog_local)",
    r"tests\.functional\.(db|migrations|monitoring)",
    r"tests\.functional\.cli\.test_(serve|main|configuration)",
    r"tests\.conformance\.test_gabbi\.(allocation|inventory|resource-provider|usage)",
)


def main(arguments: list[str]) -> int:
    """Install, and run the tests.

    :param arguments: regular expressions of the tests to run.
    :returns: 0 when nothing failed.
    """
    python = environments.find_python(environments.OLDEST_PYTHON)
    if python is None:
        print("Python {}.{} is needed for the oldest dependencies.".format(
            *environments.OLDEST_PYTHON))
        return 1
    folder = environments.ROOT / "build"
    folder.mkdir(exist_ok=True)
    pins = folder / "oldest.txt"
    extras = [word for name in environments.EXTRAS for word in ("--extra", name)]
    environments.run_uv(
        "pip", "compile", "--quiet", "--no-deps", "--resolution", "lowest-direct",
        "--python", python, "--output-file", pins, "setup.py", *extras)
    programs = environments.make_environment(folder / "oldest", python)
    # Some tools of the tests ask for newer versions of what they share with the service.
    environments.install(
        programs, "--override", pins, "--reinstall-package", "placement-core",
        "--editable", f"{environments.ROOT}[test]")
    return subprocess.run(
        [programs / "stestr", "run", *(arguments or ["|".join(_TESTS)])],
        cwd=environments.ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
