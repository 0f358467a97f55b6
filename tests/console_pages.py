"""Pages with commands and what they print: run them, and see that the page tells the truth."""

from __future__ import annotations

import dataclasses
import doctest
import json
import pathlib
import re
import select
import subprocess
from collections.abc import Iterator, Mapping, Sequence

_MARK = "--- end of output ---"


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """A command of a page.

    :ivar promised: the lines that it is said to print; without any, they are not shown.
    """

    command: str
    promised: list[str]


def read_steps(page: pathlib.Path, sections: Sequence[str]) -> list[Step]:
    """Return the commands of some sections of a page, in their order."""
    steps: list[Step] = []
    for title in sections:
        section = _read_section(page.read_text(), title)
        for block in re.findall(r"\.\. code-block:: console\n\n((?:    .*\n|\n)+)", section):
            steps.extend(_read_block(block))
    return steps


def _read_section(text: str, title: str) -> str:
    """Return what stands below a title, with the sections below it."""
    heading = re.search(rf"^{re.escape(title)}\n([=-])\1+\n", text, flags=re.MULTILINE)
    if heading is None:
        raise ValueError(f"no section is called {title}")
    next_heading = r"\n=+\n" if heading[1] == "=" else r"\n(?:=+|-+)\n"
    return re.split(next_heading, text[heading.end():])[0]


def _read_block(block: str) -> list[Step]:
    steps: list[Step] = []
    for line in (line[4:] for line in block.splitlines() if line.strip()):
        if line.startswith("$ "):
            steps.append(Step(line[2:], []))
        elif line.startswith("> "):
            steps[-1] = Step(f"{steps[-1].command}\n{line[2:]}", steps[-1].promised)
        else:
            steps[-1].promised.append(line)
    return steps


def run(
    steps: Sequence[Step], *, cwd: pathlib.Path, environ: Mapping[str, str],
    replaced: Mapping[str, str], seconds: float,
) -> subprocess.CompletedProcess[str]:
    """Run the commands in one new shell, which ends at the first that fails.

    :param replaced: {what the page says: what stands for it here}, of the commands.
    :param seconds: how long all may take.
    """
    script = "".join(f"{step.command}\necho\necho '{_MARK}'\n" for step in steps)
    for said, meant in replaced.items():
        script = script.replace(said, meant)
    return subprocess.run(
        ["bash", "-e"], input=script, env=environ, cwd=cwd, capture_output=True, text=True,
        timeout=seconds, check=False)


def start(
    step: Step, *, cwd: pathlib.Path, environ: Mapping[str, str], seconds: float
) -> tuple[subprocess.Popen[str], subprocess.CompletedProcess[str]]:
    """Start the command of a step, which goes on by itself until somebody ends it.

    :param seconds: how long it may take until it says something.
    :returns: the process, and its first line as ``find_differences`` takes it.
    """
    errors = cwd / "errors"
    with errors.open("wb") as file:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {step.command}"], cwd=cwd, env=environ,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file, text=True)
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    line = process.stdout.readline() if ready else ""
    return process, subprocess.CompletedProcess(
        process.args, 0, f"{line}{_MARK}" if line else "", errors.read_text())


def find_differences(
    steps: Sequence[Step], done: subprocess.CompletedProcess[str]
) -> Iterator[str]:
    """Yield what the commands did not print as the page says, and the command that failed."""
    outputs = done.stdout.split(_MARK)
    if len(outputs) <= len(steps):
        yield f"failed: {steps[len(outputs) - 1].command}\n{outputs[-1]}\n{done.stderr[-2000:]}"
    for step, output in zip(steps, outputs[:-1], strict=False):
        printed = [line for line in output.splitlines() if line]
        if step.promised and not _matches(step.promised, printed):
            yield f"{step.command}\n{output}"


def _matches(promised: list[str], printed: list[str]) -> bool:
    """Compare as a reader would: JSON by its content, and "..." is anything."""
    if promised[0].startswith("{"):
        return [json.loads(promised[0]), *promised[1:]] == [json.loads(printed[0]), *printed[1:]]
    return doctest.OutputChecker().check_output(
        "\n".join(promised) + "\n", "\n".join(printed) + "\n", doctest.ELLIPSIS)
