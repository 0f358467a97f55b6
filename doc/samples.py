"""Write what is made from the code: samples, history, dashboard (``make samples``)."""

from __future__ import annotations

import pathlib
import sys

from doc import dashboard
from placement_core.cli import main as commands
from placement_core.http.placement_api import microversions

ROOT = pathlib.Path(__file__).parent.parent
CONFIGURATION = ROOT / "etc" / "placement" / "placement.conf.sample"
POLICY = ROOT / "etc" / "placement" / "policy.yaml.sample"
HISTORY = ROOT / "doc" / "microversions.rst"
DASHBOARD = ROOT / "etc" / "monitoring" / "placement-core.dashboard.json"


def main() -> int:
    """Write every file; return 1 if one could not be made."""
    HISTORY.write_text(microversions.render_history())
    DASHBOARD.write_text(dashboard.render())
    made = {("config", "sample"): CONFIGURATION, ("policy", "sample"): POLICY}
    for command, path in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if commands.main([*command, "--output-file", str(path)]):
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
