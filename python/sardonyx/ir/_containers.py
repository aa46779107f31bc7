"""Mappings and lists that are views of the native graph: reading and changing them reads and changes the
graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, MutableSequence

from sardonyx._error import Error, WrongType


class _View(MutableMapping):
    """A mapping whose owner returns all pairs and accepts all of them back."""

    __slots__ = ("_owner",)

    def __init__(self, owner):
        self._owner = owner

    def _pairs(self) -> list[tuple]:
        raise NotImplementedError

    def _store(self, pairs: list[tuple]) -> None:
        raise NotImplementedError

    def _check(self, key, value) -> tuple:
        raise NotImplementedError

    def __getitem__(self, key):
        for k, v in self._pairs():
            if k == key:
                return v
        raise KeyError(key)

    def __setitem__(self, key, value) -> None:
        key, value = self._check(key, value)
        pairs = dict(self._pairs())
        pairs[key] = value
        self._store(list(pairs.items()))

    def __delitem__(self, key) -> None:
        pairs = dict(self._pairs())
        del pairs[key]
        self._store(list(pairs.items()))

    def __iter__(self) -> Iterator:
        return iter([k for k, _ in self._pairs()])

    def __len__(self) -> int:
        return len(self._pairs())

    def __contains__(self, key) -> bool:
        return any(k == key for k, _ in self._pairs())

    def update(self, other=(), /, **more) -> None:
        pairs = dict(self._pairs())
        for key, value in dict(other, **more).items():
            key, value = self._check(key, value)
            pairs[key] = value
        self._store(list(pairs.items()))

    def clear(self) -> None:
        self._store([])

    def copy(self) -> dict:
        return dict(self._pairs())

    def __eq__(self, other) -> bool:
        return isinstance(other, Mapping) and dict(self._pairs()) == dict(other)

    def __or__(self, other) -> dict:
        return dict(self) | dict(other)

    def __repr__(self) -> str:
        return repr(dict(self._pairs()))


class MetadataProps(_View):
    """String properties that are written to files."""

    __slots__ = ()

    def _pairs(self):
        return self._owner._metadata()

    def _store(self, pairs):
        self._owner._set_metadata(pairs)

    def _check(self, key, value):
        if not isinstance(key, str) or not isinstance(value, str):
            raise WrongType(
                f"metadata_props maps strings to strings, not {type(key).__name__} to {type(value).__name__}"
            )
        return key, value


class OpsetImports(_View):
    """The version of each operator domain; "" is ONNX's own."""

    __slots__ = ()

    def _pairs(self):
        return self._owner._opsets()

    def _store(self, pairs):
        self._owner._set_opsets(pairs)

    def _check(self, key, value):
        if not isinstance(key, str):
            raise WrongType(f"an operator domain is a string, not {type(key).__name__}")
        if isinstance(value, bool) or not isinstance(value, int):
            raise WrongType(f"the opset version of domain '{key}' is an integer, not {type(value).__name__}")
        return key, value


class _ValueList(MutableSequence):
    """The inputs or outputs of a graph. Changing the list changes the graph."""

    __slots__ = ("_graph",)

    def __init__(self, graph):
        self._graph = graph

    def _values(self) -> list:
        raise NotImplementedError

    def _store(self, values: list) -> None:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._values())

    def __getitem__(self, index):
        return self._values()[index]

    def __setitem__(self, index, value) -> None:
        values = self._values()
        values[index] = value
        self._store(values)

    def __delitem__(self, index) -> None:
        values = self._values()
        del values[index]
        self._store(values)

    def insert(self, index: int, value) -> None:
        values = self._values()
        values.insert(index, value)
        self._store(values)

    def append(self, value) -> None:
        self._store([*self._values(), value])

    def extend(self, values: Iterable) -> None:
        self._store([*self._values(), *values])

    def remove(self, value) -> None:
        values = self._values()
        for i, other in enumerate(values):
            if other is value:
                del values[i]
                self._store(values)
                return
        raise Error(f"{value!r} is not in the list")

    def clear(self) -> None:
        self._store([])

    def copy(self) -> list:
        return self._values()

    def index(self, value, start: int = 0, stop: int | None = None) -> int:
        values = self._values()
        for i in range(*slice(start, stop).indices(len(values))):
            if values[i] is value:
                return i
        raise Error(f"{value!r} is not in the list")

    def __contains__(self, value) -> bool:
        return any(v is value for v in self._values())

    def __iter__(self) -> Iterator:
        return iter(self._values())

    def __eq__(self, other) -> bool:
        if isinstance(other, _ValueList | list | tuple):
            mine, theirs = self._values(), list(other)
            return len(mine) == len(theirs) and all(a is b for a, b in zip(mine, theirs))
        return NotImplemented

    __hash__ = None

    def __add__(self, other) -> list:
        return self._values() + list(other)

    def __repr__(self) -> str:
        return repr(self._values())


class GraphInputs(_ValueList):
    __slots__ = ()

    def _values(self):
        return self._graph._inputs()

    def _store(self, values):
        self._graph._set_inputs(values)


class GraphOutputs(_ValueList):
    __slots__ = ()

    def _values(self):
        return self._graph._outputs()

    def _store(self, values):
        self._graph._set_outputs(values)


class GraphInitializers(MutableMapping):
    """The initializers of a graph by name, in file order."""

    __slots__ = ("_graph",)

    def __init__(self, graph):
        self._graph = graph

    def __getitem__(self, name: str):
        value = self._graph._initializer(name) if isinstance(name, str) else None
        if value is None:
            raise KeyError(name)
        return value

    def __setitem__(self, name: str, value) -> None:
        if not isinstance(name, str):
            raise WrongType(f"initializers are named by strings, not {type(name).__name__}")
        if not hasattr(value, "is_initializer"):
            raise WrongType(f"an initializer is an ir.Value with a const_value, not {type(value).__name__}")
        if not name:
            raise Error("an initializer must have a name")
        if not value.name:
            value.name = name
        elif value.name != name:
            raise Error(
                f"the key '{name}' is not the value's name, '{value.name}'", notes=("use initializers.add(value)",)
            )
        self._graph._put_initializer(value)

    def __delitem__(self, name: str) -> None:
        self._graph._take_initializer(self[name])

    def __iter__(self) -> Iterator[str]:
        return iter([v.name for v in self._graph._initializers()])

    def __len__(self) -> int:
        return self._graph._num_initializers

    def __contains__(self, name) -> bool:
        return isinstance(name, str) and self._graph._initializer(name) is not None

    def values(self):
        return self._graph._initializers()

    def items(self):
        return [(v.name, v) for v in self._graph._initializers()]

    def add(self, value) -> None:
        """Register `value`. An initializer of the same name is first removed from the graph (the builder
        refuses instead)."""
        if not hasattr(value, "is_initializer"):
            raise WrongType(f"an initializer is an ir.Value with a const_value, not {type(value).__name__}")
        self[value.name or ""] = value

    def tensors(self) -> Iterator:
        """The payloads."""
        return (v.const_value for v in self._graph._initializers())

    def tensor_items(self) -> Iterator:
        """(name, payload) pairs."""
        return ((v.name, v.const_value) for v in self._graph._initializers())

    def get_tensor(self, name: str, default=None):
        value = self._graph._initializer(name)
        return default if value is None else value.const_value

    def __repr__(self) -> str:
        return repr(dict(self.items()))


class Functions(MutableMapping):
    """The functions of a model by (domain, name, overload)."""

    __slots__ = ("_model",)

    def __init__(self, model):
        self._model = model

    def _all(self) -> dict:
        return {(f.domain, f.name, f.overload): f for f in self._model._functions()}

    def __getitem__(self, key):
        return self._all()[key]

    def __setitem__(self, key, function) -> None:
        if key != (function.domain, function.name, function.overload):
            raise Error(f"the key {key!r} is not the function's identifier, {function.identifier()!r}")
        if key in self:
            if self[key] is function:
                return
            self._model._remove_function(self[key])
        self._model._add_function(function)

    def __delitem__(self, key) -> None:
        self._model._remove_function(self[key])

    def __iter__(self) -> Iterator:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._model._functions())

    def __repr__(self) -> str:
        return repr(self._all())
