"""Statements as a driver takes them, compiled once.

What SQLAlchemy does around a statement each time that it executes it takes longer than the
driver takes to send it. A compiled statement only converts the values of parameters. This is
the one road past SQLAlchemy; errors come back to it (``raise_as_executed``).
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import sqlalchemy as sa

from placement_core.caches import BoundedCache
from placement_core.db import arrays, drivers

#: How many texts one statement with lists may have.
_MOST_TEXTS = 128
#: Lists that are longer have no rounded length.
_LONG_LIST = 1000

#: The option of an execution that says what the driver has raised for it already.
_RAISED = "placement_core_raised"

#: Makes what a driver takes for the parameters of one statement.
Bind: TypeAlias = Callable[[Mapping[str, Any]], Any]
#: Makes the values that the driver wants, by name.
Convert: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any]]

#: Of one execution, or of several, which all have the same names.
Parameters: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]

#: A statement that reads.
Read: TypeAlias = sa.Select[Any] | sa.CompoundSelect[Any]
#: A statement that writes.
Write: TypeAlias = sa.Insert | sa.Update | sa.Delete


@dataclasses.dataclass(frozen=True, slots=True)
class CompiledStatement:
    """A statement for one dialect.

    :ivar text: in the driver's own style of parameters.
    """

    text: str
    bind: Bind

    def execute(self, cursor: Any, parameters: Parameters) -> None:
        """Send it on a cursor of the driver."""
        execute = cursor.execute if isinstance(parameters, Mapping) else cursor.executemany
        execute(self.text, self.bind_each(parameters))

    def bind_each(self, parameters: Parameters) -> Any:
        """Make what the driver takes, of several executions a list."""
        if isinstance(parameters, Mapping):
            return self.bind(parameters)
        return [self.bind(row) for row in parameters]

    def raise_as_executed(self, connection: sa.Connection, error: BaseException) -> NoReturn:
        """Raise what ``connection.execute`` would raise where the driver raises ``error``.

        What it means, and whether the connection is lost, SQLAlchemy and oslo.db know: to
        them it seems to be executed, and ``error`` raised by that.
        """
        connection.exec_driver_sql(self.text, execution_options={_RAISED: error})
        raise error  # Not reached: ``listen`` has seen to it.


def listen(engine: sa.Engine) -> None:
    """Let ``raise_as_executed`` work on connections of an engine."""

    @sa.event.listens_for(engine, "do_execute")
    def raise_again(
        _cursor: object, _statement: object, _parameters: object, context: Any
    ) -> None:
        error: BaseException | None = context.execution_options.get(_RAISED)
        if error is not None:
            raise error


class _CompiledByLengths:
    """A statement for one dialect, whose parameters may be lists.

    Where lists become as many parameters as they have values (``lists``), there is a text for
    each combination of lengths. Lengths are rounded up to powers of two, so that there are
    few: the last value of a list is repeated.
    """

    def __init__(
        self, compiled: Any, dialect: sa.Dialect, defaults: Mapping[str, Callable[[], Any]]
    ) -> None:
        self._compiled = compiled
        self._make_converter = _make_converter(self._compiled, dialect, defaults)
        # Others that are "post-compiled" are constants that have to stand in the text.
        self._lists = sorted({
            bind.key for bind in self._compiled.post_compile_params if bind.expanding})
        self._by_lengths: BoundedCache[tuple[int, ...], CompiledStatement] = BoundedCache(
            _MOST_TEXTS)
        self._without_lists = None if self._lists else self._expand(())

    def for_parameters(self, parameters: Mapping[str, Any]) -> CompiledStatement:
        """Return the statement for lists as long as these."""
        if self._without_lists is not None:
            return self._without_lists
        lengths = tuple(_round_up(len(parameters[name])) for name in self._lists)
        statement = self._by_lengths.get(lengths)
        if statement is None:
            statement = self._expand(lengths)
            self._by_lengths.put(lengths, statement)
        return statement

    def _expand(self, lengths: Sequence[int]) -> CompiledStatement:
        expanded = self._compiled.construct_expanded_state({
            **self._compiled.params, **{name: [None] * length for name, length in zip(
                self._lists, lengths, strict=True)}})
        def convert(parameters: Mapping[str, Any]) -> dict[str, Any]:
            values = self._make_converter(parameters)
            for name, names in expanded.parameter_expansion.items():
                items = values.pop(name)
                padding = items[-1:] * (len(names) - len(items))
                values.update(zip(names, [*items, *padding], strict=True))
            return values

        return CompiledStatement(expanded.statement, _make_binder(convert, expanded.positiontup))


class CompiledRead(_CompiledByLengths):
    """A statement that reads."""

    def __init__(self, statement: Read, dialect: sa.Dialect) -> None:
        super().__init__(statement.compile(dialect=dialect), dialect, {})


def compile_write(
    statement: Write, names: Iterable[str], dialect: sa.Dialect
) -> _CompiledByLengths | None:
    """Compile a statement that writes, for parameters of these names.

    :returns: None: only SQLAlchemy can execute it: its text depends on values other than lists, it
        inserts a row whose key has to be found out, or a parameter is missing.
    """
    compiled: Any = statement.compile(dialect=dialect, column_keys=list(names))
    if (any(not bind.expanding for bind in compiled.post_compile_params)
            or compiled.literal_execute_params
            or compiled.escaped_bind_names or (compiled.isinsert and not compiled.inline)):
        return None
    defaults: dict[str, Callable[[], Any]] = {}
    for column in compiled.insert_prefetch or compiled.update_prefetch:
        default = column.default if compiled.isinsert else column.onupdate
        if column.key not in compiled.params or not (default.is_scalar or default.is_callable):
            return None
        make = _make_constant if default.is_scalar else _make_call
        defaults[column.key] = make(default.arg)
    wanted = {name for bind, name in compiled.bind_names.items() if bind.required}
    if not wanted <= {*names, *defaults}:
        return None
    return _CompiledByLengths(compiled, dialect, defaults)


class CompiledStatements:
    """Statements that write, compiled for one dialect, while somebody holds them.

    :ivar dialect: that one.
    :ivar rows_together: how many rows a statement may have that is sent together with others;
        0: each is sent by itself.
    """

    def __init__(self, dialect: sa.Dialect) -> None:
        self.dialect = dialect
        self.rows_together = drivers.count_rows_together(dialect)
        self._compiled: weakref.WeakKeyDictionary[
            Write, dict[tuple[str, ...], _CompiledByLengths | None]] = weakref.WeakKeyDictionary()

    def get(self, statement: Write, parameters: Mapping[str, Any]) -> CompiledStatement | None:
        """Return a statement compiled for parameters of these names, as ``compile_write``."""
        names = tuple(parameters)
        by_names = self._compiled.get(statement)
        if by_names is None:
            by_names = self._compiled.setdefault(statement, {})
        try:
            compiled = by_names[names]
        except KeyError:
            compiled = by_names[names] = compile_write(statement, names, self.dialect)
        return None if compiled is None else compiled.for_parameters(parameters)


def _make_converter(
    compiled: Any, dialect: sa.Dialect, defaults: Mapping[str, Callable[[], Any]]
) -> Convert:
    """Return what converts parameters, one by one or in lists, and adds those not given."""
    constants = {name: compiled.params[name] for bind, name in compiled.bind_names.items()
                 if not bind.required and name not in defaults}
    processors = {
        name: _make_each_processor(process) if bind.expanding else process
        for bind, name in compiled.bind_names.items()
        if (process := arrays.find_writer(bind.type, dialect)
            or bind.type.dialect_impl(dialect).bind_processor(dialect)) is not None}

    def convert(parameters: Mapping[str, Any]) -> dict[str, Any]:
        values = {**constants, **parameters}
        for name, make in defaults.items():
            if name not in parameters:
                values[name] = make()
        for name, process in processors.items():
            values[name] = process(values[name])
        return values

    return convert


def _make_each_processor(process: Callable[[Any], Any]) -> Callable[[Sequence[Any]], Any]:
    return lambda values: [process(value) for value in values]


def _make_binder(convert: Convert, order: Sequence[str] | None) -> Bind:
    """Return what makes the driver's parameters.

    :param order: their names, for a driver that counts them; None: they go by their names.
    """
    if order is None:
        return convert

    def bind_in_order(parameters: Mapping[str, Any]) -> list[Any]:
        values = convert(parameters)
        return [values[name] for name in order]

    return bind_in_order


def _round_up(length: int) -> int:
    """Return the next power of two; long lists stay as they are: databases bound them."""
    return length if length > _LONG_LIST else 1 << (length - 1).bit_length() if length else 0


def _make_constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _make_call(make: Callable[[Any], Any]) -> Callable[[], Any]:
    # SQLAlchemy hands over what is being executed, which none of our defaults asks for.
    return lambda: make(None)
