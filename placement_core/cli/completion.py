"""``placement-core completion …``: what a shell needs to complete commands and options.

Each script has the same table in the shell's own language: which words can follow a command, or
an option that takes one of several values. It is made of the commands themselves.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence

from placement_core.cli import base

_PROGRAM = "placement-core"

#: {command, and perhaps an option: what can follow it}; files can where there is nothing.
Table = Mapping[str, Sequence[str]]

_BASH = """\
_placement_core_words() {{
    case "$1" in
{cases}
        *) return 1 ;;
    esac
}}

_placement_core() {{
    local at={program} option= word
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$word" in
            -*) option="$at $word" ;;
            *)  option=
                if _placement_core_words "$at $word" > /dev/null; then at="$at $word"; fi ;;
        esac
    done
    word=$(_placement_core_words "$option" || _placement_core_words "$at")
    COMPREPLY=($(compgen -W "$word" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}

complete -o default -F _placement_core {program}
"""

_ZSH = """\
#compdef {program}
_placement_core_words() {{
    case "$1" in
{cases}
        *) return 1 ;;
    esac
}}

_placement_core() {{
    local at={program} option= word
    for word in "${{(@)words[2,CURRENT-1]}}"; do
        case "$word" in
            -*) option="$at $word" ;;
            *)  option=
                if _placement_core_words "$at $word" > /dev/null; then at="$at $word"; fi ;;
        esac
    done
    word=$(_placement_core_words "$option" || _placement_core_words "$at")
    if [[ -n $word ]]; then compadd -- ${{=word}}; else _files; fi
}}

compdef _placement_core {program}
"""

_FISH = """\
function __placement_core_words
    switch "$argv[1]"
{cases}
        case '*'
            return 1
    end
end

function __placement_core_complete
    set -l at {program}
    set -l option
    for word in (commandline -opc)[2..-1]
        if string match -q -- '-*' $word
            set option "$at $word"
        else
            set option
            __placement_core_words "$at $word" > /dev/null; and set at "$at $word"
        end
    end
    set -l words (__placement_core_words "$option"; or __placement_core_words "$at")
    if test -n "$words"
        string split ' ' -- $words
    else
        __fish_complete_path (commandline -ct)
    end
end

complete -c {program} -f -a '(__placement_core_complete)'
"""

#: {shell: (its script, how one line of the table is written)}
_SHELLS = {
    "bash": (_BASH, "        '{at}') echo '{words}' ;;"),
    "zsh": (_ZSH, "        '{at}') print -r -- '{words}' ;;"),
    "fish": (_FISH, "        case '{at}'\n            echo '{words}'"),
}


class PrintCompletion(base.Command):
    """Print what completes commands and options in a shell.

    For bash: source <(placement-core completion bash). For zsh the same with zsh, after
    compinit. For fish: placement-core completion fish | source. Such a line in the file that the
    shell reads when it starts does it for good.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser."""
        parser = super().get_parser(prog_name)
        parser.add_argument("shell", choices=sorted(_SHELLS), help="which shell")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        script, line = _SHELLS[parsed_args.shell]
        cases = "\n".join(line.format(at=at, words=" ".join(words))
                          for at, words in self._make_table().items())
        self.say(script.format(cases=cases, program=_PROGRAM).rstrip())
        return 0

    def _make_table(self) -> Table:
        """Return what can follow each part of a command line."""
        table: dict[str, list[str]] = {_PROGRAM: []}
        self._add_parser(table, _PROGRAM, self.app.parser)
        for name, _ in self.app.command_manager:
            at = _PROGRAM
            for word in name.split():
                if word not in table[at]:
                    table[at].append(word)
                at = f"{at} {word}"
                table.setdefault(at, [])
            command, _, _ = self.app.command_manager.find_command(name.split())
            self._add_parser(table, at, command(self.app, None).get_parser(at))
        return {at: sorted(words) for at, words in table.items()}

    def _add_parser(
        self, table: dict[str, list[str]], at: str, parser: argparse.ArgumentParser
    ) -> None:
        """Add the options of a command, and the values from which one is chosen."""
        for action in parser._actions:
            if action.help is argparse.SUPPRESS:
                continue
            table[at] += action.option_strings
            values = list(_list_values(action))
            if not action.option_strings:
                table[at] += values
            elif action.nargs != 0:
                table.update(
                    (f"{at} {option}", values) for option in action.option_strings)


def _list_values(action: argparse.Action) -> Iterator[str]:
    return (str(value) for value in action.choices or ())
