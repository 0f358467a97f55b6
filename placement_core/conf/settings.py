"""The settings in files and the environment, and those that no option reads.

oslo.config ignores names that it does not know, so a typo leaves the default in force.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping

from keystoneauth1 import exceptions as auth_exceptions, loading as auth_loading
from oslo_config import cfg

from placement_core.conf import namespaces, options

_PREFIX, _SEPARATOR = "OS_", "__"

#: How similar the name of a section is to that of another one if it is most likely misspelt.
_ALIKE = 0.8

#: The names that an option may have in a file, by group.
_Names = dict[str, set[str]]


@dataclasses.dataclass(frozen=True)
class Setting:
    """One line of a file, or one environment variable.

    :ivar source: the path of the file, or the name of the variable.
    """

    source: str
    group: str
    name: str
    value: str

    @property
    def is_variable(self) -> bool:
        """Whether it is in the environment."""
        return self.source.startswith(_PREFIX)


def find_unknown(conf: cfg.ConfigOpts) -> list[str]:
    """Return a line for each setting that no option reads, with the most similar name.

    A section that is in nobody's options, nor named like one that is, is left out while the
    options of a driver cannot be loaded: it may be that driver's.

    :param conf: the loaded options, which know the files that were read.
    """
    settings = read_settings(conf)
    suspects = [setting for setting in settings if not _is_registered(conf, setting)]
    lines = _find_single_underscores()
    if suspects:
        # Imported only if needed: some of these libraries take half a second to load.
        loaded_options = namespaces.load_options()
        names = _collect_names(loaded_options.groups, settings)
        lines += [
            f"{_describe(setting)}: {_explain(setting, names)}" for setting in suspects
            if setting.name not in names.get(setting.group, ())
            and (loaded_options.is_complete or _is_like_one_of(
                setting.group, loaded_options.groups))]
    return lines


def _is_like_one_of(name: str, known_names: Iterable[str]) -> bool:
    return bool(difflib.get_close_matches(name, known_names, 1, _ALIKE))


def list_auth_options(settings: Iterable[Setting]) -> dict[str, list[cfg.Opt]]:
    """Return the options of authentication plugins in each group that chooses one."""
    auth_options: dict[str, list[cfg.Opt]] = {}
    for setting in settings:
        if setting.name == "auth_type":
            try:
                auth_options[setting.group] = list(
                    auth_loading.get_auth_plugin_conf_options(setting.value))
            except auth_exceptions.NoMatchingPlugin:
                # The login reports the missing plugin.
                continue
    return auth_options


def read_settings(conf: cfg.ConfigOpts) -> list[Setting]:
    """Return the settings in the files that were read, and in the environment."""
    return [*_read_files(conf), *_read_environment()]


def _read_files(conf: cfg.ConfigOpts) -> Iterator[Setting]:
    for path in list_files(conf):
        sections: dict[str, dict[str, list[str]]] = {}
        cfg.ConfigParser(path, sections).parse()
        for section, values in sections.items():
            group = section if section == "DEFAULT" else section.lower()
            for name, lines in values.items():
                yield Setting(path, group, name, lines[-1])


def list_files(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield the paths of the files that were read, in the order of reading."""
    yield from conf.config_file or ()
    for folder in conf.config_dir or ():
        yield from sorted(map(str, pathlib.Path(folder).glob("*.conf")))


def _read_environment() -> Iterator[Setting]:
    for variable, value in sorted(os.environ.items()):
        group, separator, name = variable.removeprefix(_PREFIX).partition(_SEPARATOR)
        if variable.startswith(_PREFIX) and separator:
            yield Setting(
                variable, "DEFAULT" if group == "DEFAULT" else group.lower(), name.lower(), value)


def _is_registered(conf: cfg.ConfigOpts, setting: Setting) -> bool:
    try:
        values = conf if setting.group == "DEFAULT" else conf[setting.group]
        return setting.name in values
    except cfg.NoSuchOptError:
        return False


def _find_single_underscores() -> list[str]:
    """Return a line for each variable of ours that lacks one of its two underscores."""
    variables = [
        _name_variable("DEFAULT" if group is None else group.name, option.dest)
        for group, group_options in options.list_opts() for option in group_options]
    misspelt = {variable.replace(_SEPARATOR, "_"): variable for variable in variables}
    return [
        f"{variable}: no option reads it; is {misspelt[variable]} meant?"
        for variable in sorted(os.environ) if variable in misspelt]


def _name_variable(group: str, name: str) -> str:
    return f"{_PREFIX}{group}{_SEPARATOR}{name}".upper()


def _collect_names(
    known: Mapping[str, Iterable[cfg.Opt]], settings: list[Setting]
) -> _Names:
    names: _Names = {}
    for groups in (known, list_auth_options(settings)):
        for group, group_options in groups.items():
            for option in group_options:
                names.setdefault(group, set()).update((option.name, option.dest))
                for old in option.deprecated_opts:
                    names.setdefault(old.group or group, set()).add(old.name or option.name)
    # Several groups may share one section with the options of their login.
    for setting in settings:
        if setting.name == "auth_section":
            names.setdefault(setting.value, set()).update(("auth_type", "auth_section"))
    return names


def _describe(setting: Setting) -> str:
    if setting.is_variable:
        return setting.source
    return f"{setting.source}: [{setting.group}] {setting.name}"


def _explain(setting: Setting, names: _Names) -> str:
    """Return why no option reads a setting, with a similar name or the right section."""
    group, name = setting.group, setting.name
    if group not in names:
        near = difflib.get_close_matches(group, names, n=1)
        return f"there is no section [{group}]" + (f"; is [{near[0]}] meant?" if near else "")
    if near := difflib.get_close_matches(name, names[group], n=1):
        meant = _name_variable(group, near[0]) if setting.is_variable else near[0]
        return f"no option reads it; is {meant} meant?"
    homes = " or ".join(f"[{other}]" for other in sorted(names) if name in names[other])
    return "no option reads it" + (f"; it belongs into {homes}" if homes else "")
