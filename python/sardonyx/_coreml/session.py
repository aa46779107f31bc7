"""Passes on coremltools programs in memory. A program is imported op by op and optimized natively, and the
resulting edits change it in place.

Ops and variables that no pass changes keep their identity. coremltools' own builder makes new ops, so their
types, symbols and values are its own.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx import _sardonyx
from sardonyx._coreml import interface as _coreml_interface
from sardonyx._error import Error, WrongType
from sardonyx._models.optimize import _option, request
from sardonyx._models.sources import is_program

_DTYPES = {
    "fp16": "f16", "fp32": "f32", "fp64": "f64", "double": "f64", "int4": "i4", "int8": "i8", "int16": "i16", "int32": "i32",
    "int64": "i64", "uint1": "u1", "uint2": "u2", "uint3": "u3", "uint4": "u4", "uint6": "u6", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "bool": "bool", "str": "str", "string": "str", "complex64": "c64",
}  # fmt: skip
# Array dtypes that native code reads directly, and their DType numbers.
_WHOLE = {
    np.dtype(name): number
    for name, number in {
        "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11,
        "uint32": 12,
    }.items()
}  # fmt: skip
_NARROW = ("int4", "uint1", "uint2", "uint3", "uint4", "uint6")
_STRING = 8
_SIZE = re.compile(r"[A-Za-z0-9_+\-* ()]+")
# Ops of control flow, and how their blocks are given to coremltools' builder.
_BLOCKS = {"cond": ("_true_fn", "_false_fn"), "while_loop": ("_cond", "_body")}
# Passes that cast, which take a predicate on ops, and the attribute that marks the ops it rejects.
SELECTING = {"add_fp16_cast": "keep_fp32", "add_int16_cast": "keep_int32"}
# Ops that these passes never change.
_NEVER_CAST = frozenset(
    "const cast while_loop cond make_list list_gather list_scatter list_read list_write list_length read_state coreml_update_state".split()
)


def _mil():
    """The parts of coremltools used here, imported on use."""
    try:
        from coremltools import _OPSET
        from coremltools.converters.mil import mil
        from coremltools.converters.mil.mil.utils import CacheDoublyLinkedList
    except ImportError:
        raise Error(
            "coremltools is not installed, which its programs need", notes=["help: pip install coremltools"]
        ) from None
    return mil, _OPSET, CacheDoublyLinkedList


def require_coremltools() -> None:
    """Raises an Error that says what to install if coremltools is missing."""
    _mil()


def require_program(prog) -> None:
    """Raises unless `prog` is a coremltools Program, and says how to get one."""
    mil, _, _ = _mil()
    if isinstance(prog, mil.Program):
        return
    help_ = "expected a Program of coremltools"
    if isinstance(getattr(prog, "_mil_program", None), mil.Program):
        help_ = "help: the program of a converted model is model._mil_program"
    elif isinstance(prog, (str, bytes, os.PathLike)) or is_program(prog):
        help_ = "help: sardonyx.coreml.optimize(model, passes=[...]) runs passes on files, and on what load returns"
    elif isinstance(prog, mil.Function):
        help_ = "help: program.add_function(name, function), and pass the program"
    raise WrongType(f"passes run on a Program of coremltools, not on {type(prog).__name__}", notes=(help_,))


class ProgramSession:
    """One run of passes on a program: `import_program`, `run`, `apply_edits`."""

    def __init__(self, prog):
        mil, self.opsets, self.op_list = _mil()
        self.mb, self.types = mil.Builder, mil.types
        self.prog = prog
        versions = [int(f.opset_version) for f in prog.functions.values() if f.opset_version is not None]
        self.version = max(versions, default=4)
        self.narrow, self.narrow_count = {}, 0

    # --- import

    def import_program(self) -> None:
        self.native = _sardonyx.coreml.Session(
            _coreml_interface.functions(self.prog),
            self.version,
            type_text=self._type_text,
            version=self._version,
            payload=self._payload,
            opset=self._opset,
        )

    def run(self, request) -> dict[str, Any]:
        return self.native.run(request)

    def select(self, pass_name: str, op_selector) -> None:
        """Restricts add_fp16_cast or add_int16_cast to ops that the predicate accepts."""
        for number, op in enumerate(self.native.ops()):
            if op.op_type not in _NEVER_CAST and not op_selector(op):
                self.native.keep(number, SELECTING[pass_name])

    def _opset(self, function) -> str:
        version = int(function.opset_version) if function.opset_version is not None else self.version
        return self.opsets.get(version, "")

    def _version(self, op) -> int:
        try:
            version = op.opset_version
        except AttributeError:  # ops of a frontend have one version
            version = None
        return int(version) if version is not None else self.version

    def _type_text(self, t) -> str:
        types = self.types
        if types.is_tensor(t):
            dims = [self._size(d) for d in t.get_shape()]
            element = _DTYPES.get(types.builtin_to_string(t.get_primitive()), "?")
            return f"{element}[...]" if None in dims else f"{element}[{','.join(dims)}]"
        if types.is_list(t):
            length = t.T[1] if isinstance(t.T[1], int) else "?"
            return f"list({self._type_text(t.T[0]) or '?'}, {length})"
        if types.is_state(t):
            return f"state({self._type_text(t.wrapped_type())})"
        try:
            return f"{_DTYPES[types.builtin_to_string(t)]}[]"
        except (KeyError, AttributeError, TypeError):
            return ""

    @staticmethod
    def _size(d) -> str | None:
        if isinstance(d, (int, np.integer)):
            return str(int(d))
        text = str(d)
        if text.startswith(("*", "...")):
            return None
        return text if _SIZE.fullmatch(text) else "?"

    def _payload(self, var):
        """(string or array, DType number) for native code; (None, 0) where it cannot read the value.

        For elements narrower than a byte: (a number that is equal for equal arrays, -1).
        """
        value = var.val
        if isinstance(value, str):
            return value, _STRING
        if isinstance(value, (bool, int, float)):
            value = np.asarray(value, dtype=self.types.nptype_from_builtin(var.dtype))
        elif isinstance(value, np.generic):
            value = np.asarray(value)
        if not isinstance(value, np.ndarray):
            return None, 0
        number = _WHOLE.get(value.dtype, 0)
        # Elements narrower than a byte are packed in files but not here: native code does not read them.
        if value.dtype.itemsize == 1 and self._packed(var.dtype):
            return self._stands_for(value), -1
        if not number or value.dtype.metadata:
            return None, 0
        return value, number

    def _packed(self, t) -> bool:
        return _DTYPES.get(self.types.builtin_to_string(t)) in ("i4", "u1", "u2", "u3", "u4", "u6")

    def _stands_for(self, value) -> int:
        """The same number for equal arrays."""
        elements = value.reshape(-1)
        alike = self.narrow.setdefault((value.shape, elements[:64].tobytes(), elements[-64:].tobytes()), [])
        for other, number in alike:
            if np.array_equal(other, value):
                return number
        self.narrow_count += 1
        alike.append((value, self.narrow_count))
        return self.narrow_count

    # --- edits (native/coreml/edits.h)

    def apply_edits(self, pass_names: str) -> None:
        self.pass_names = pass_names
        for name, function in _coreml_interface.functions(self.prog).items():
            edit = self.native.function_edit(name)
            if edit is None:
                continue
            names_before = [v.name for v in function.outputs]
            for number, var in _coreml_interface.change_inputs(function, edit.inputs):
                self.native.set_variable(number, var)
            self._edit_block(function, edit)
            _coreml_interface.warn_of_renamed("output", names_before, [v.name for v in function.outputs])
        old = list(self.prog.functions.values())
        for name in self.native.new_functions():
            self._make_function(name, old)

    @contextlib.contextmanager
    def _inside(self, block):
        """As `with block`, but skips its final check of all ops where no constexpr op makes that
        necessary."""
        from coremltools.converters.mil.mil import block as blocks

        if self.native.has_constexpr():
            with block:
                yield
            return
        blocks.BLOCK_STACK.append(block)
        try:
            yield
        finally:
            blocks.BLOCK_STACK = blocks.BLOCK_STACK[:-1]

    def _edit_block(self, block, edit) -> None:
        if edit is None:
            return
        made = {}
        edits, results, order = edit.ops, edit.results, edit.order
        if all(e.op is not None for e in edits) and results is None:
            self._edit_ops(block, edits)
        else:
            with self._inside(block):
                made = self._edit_ops(block, edits)
                if results is not None:
                    self._return(block, results)
        if edit.removed:
            ops = [self.native.op(number) for number in edit.removed]
            for op in ops:
                for inner in op.blocks:
                    self._empty(inner)
            block.remove_ops(ops)
        if order is not None:
            ops = []
            for number in order:
                ops.extend([self.native.op(number)] if number >= 0 else made[-1 - number])
            seen = set(map(id, ops))
            ops.extend(op for op in block.operations if id(op) not in seen)  # identities that keep names of results
            block.operations = self.op_list(ops)

    def _edit_ops(self, block, edits) -> dict[int, list]:
        """Changes ops and makes new ones. Returns the ops that edit i made, by i."""
        made = {}
        for i, edit in enumerate(edits):
            if edit.op is not None:
                self._edit_op(self.native.op(edit.op), edit)
            else:
                made[i] = self._make_op(block, edit)
        return made

    def _return(self, block, wanted) -> None:
        is_function = block.outer_op is None
        results = []
        for result in wanted:
            name, var = result.name, self.native.variable(result.value)
            if is_function and name and var.name != name:
                taken = any(v is var for v in results) or var.op is None or any(v.name == name for v in results)
                if taken or any(var is v for v in block.inputs.values()):
                    var = self.mb.identity(x=var, name=name)
                    was = block.outputs[len(results)].op if len(results) < len(block.outputs) else None
                    self._scope_as(var.op, [was] if was is not None else [])
                else:
                    var.name = name
            results.append(var)
        if [id(v) for v in results] != [id(v) for v in block.outputs]:
            block.set_outputs(results)

    def _empty(self, block) -> None:
        """Removes the block's ops and their uses of outer values, before the block itself is removed."""
        block.set_outputs([])
        ops = list(block.operations)
        for op in ops:
            for inner in op.blocks:
                self._empty(inner)
        block.remove_ops(ops)

    def _edit_op(self, op, edit) -> None:
        blocks = edit.blocks
        if len(edit.results) != len(op.outputs):
            self._narrow_loop(op, edit.results, blocks)
            blocks = [None] * len(blocks)
        changed = {}
        for operand in edit.operands:
            values = [self.native.variable(n) for n in operand.values]
            old = op.inputs.get(operand.slot)
            old_list = list(old) if isinstance(old, (list, tuple)) else [old]
            if len(old_list) != len(values) or any(a is not b for a, b in zip(old_list, values, strict=True)):
                changed[operand.slot] = tuple(values) if isinstance(old, (list, tuple)) else values[0]
        if changed:
            op.set_inputs(no_check_var_types=True, **changed)
        if edit.has_new_types:
            op.type_value_inference(overwrite_output=True)
        if edit.name and op.name != edit.name:
            op.name = edit.name
        for var, var_name in zip(op.outputs, edit.result_names, strict=True):
            if var_name and var.name != var_name:
                var.name = var_name
        for block, block_edit in zip(op.blocks, blocks, strict=True):
            self._edit_block(block, block_edit)

    def _narrow_loop(self, op, results, blocks) -> None:
        """Removes the variables that the blocks of a while_loop no longer take."""
        still = [{id(self.native.variable(i.value)) for i in edit.inputs} for edit in blocks]
        keep = [i for i, v in enumerate(op.blocks[1].inputs) if id(v) in still[1]]
        for number, i in zip(results, keep, strict=True):
            self.native.set_variable(number, op.outputs[i])
        for block, edit, inputs in zip(op.blocks, blocks, still, strict=True):
            self._edit_block(block, edit)
            block.remove_inputs([v for v in block.inputs if id(v) not in inputs])
        for i, v in enumerate(op.loop_vars):
            if i not in keep:
                v.remove_child_op(op)
        op.loop_vars = tuple(op.loop_vars[i] for i in keep)
        op._input_vars["loop_vars"] = op.loop_vars
        op._output_vars = [op.outputs[i] for i in keep]

    def _make_function(self, name: str, old: Sequence[Any]) -> None:
        """Adds a copy of an old function, specialized for known sizes."""
        from coremltools import target as AvailableTarget
        from coremltools.converters.mil.mil import Function

        new = self.native.new_function(name)
        target = next((t for t in AvailableTarget if self.opsets.get(int(t)) == new.opset), None)
        symbols = {
            str(d): d for f in old for v in f.inputs.values() if not self.types.is_list(v.sym_type) for d in v.shape
        }
        builtin = {v: k for k, v in _DTYPES.items()}
        placeholders = {}
        for given in new.block.inputs:
            element, _, sizes = given.type.removeprefix("state(").rstrip("])").partition("[")
            shape = tuple(self._open_size(d, symbols) for d in sizes.split(",") if d)
            make = self.mb.state_tensor_placeholder if given.type.startswith("state(") else self.mb.placeholder
            placeholders[given.name] = make(shape, self.types.string_to_builtin(builtin[element]))
        weights = {op.name: op for f in old for op in f.operations if op.op_type == "const"}
        with Function(inputs=placeholders, opset_version=target) as function:
            for given in new.block.inputs:
                self.native.set_variable(given.value, function.inputs[given.name])
            for edit in new.block.ops:
                for op in self._make_op(function, edit):
                    source = weights.get(op.name) if op.op_type == "const" else None
                    if source is not None:  # functions share weights by these names
                        if source.weight_id is None:
                            source.weight_id = f"const_{source.outputs[0].name}_weight_id"
                        op.weight_id = source.weight_id
                        if getattr(source, "weight_key", None) is not None:
                            op.weight_key = source.weight_key
            function.set_outputs([self.native.variable(r.value) for r in new.block.results])
        self.prog.add_function(name, function)

    @staticmethod
    def _open_size(text: str, symbols):
        """A size for coremltools: a number, or a symbol or expression of the old functions."""
        if text.isdigit():
            return int(text)
        if text in symbols:
            return symbols[text]
        import sympy

        return sympy.sympify(text, locals={s.name: s for d in symbols.values() for s in getattr(d, "free_symbols", ())})

    def _make_op(self, block, edit) -> list:
        """Makes an edit's op. Returns it with the constants that coremltools' builder adds for its defaults."""
        before = edit.before
        where = {} if before is None else {"before_op": self.native.op(before)}
        if edit.name:
            where["name"] = edit.name
        there = block.operations
        last = there.end if before is None else there._get_node_from_op(where["before_op"]).prev
        if not edit.type:
            out = self.mb.const(val=self._value(edit.constant), **where)
        else:
            given = {}
            for operand in edit.operands:
                values = tuple(map(self.native.variable, operand.values))
                given[operand.slot] = values if operand.is_list else values[0]
            given |= dict(zip(_BLOCKS.get(edit.type, ()), map(self._builder, edit.blocks), strict=True))
            out = getattr(self.mb, edit.type)(**given, **where)
        out = list(out) if isinstance(out, (list, tuple)) else [out]
        for var, number, var_name in zip(out, edit.results, edit.result_names, strict=True):
            if var_name:
                var.name = var_name
            self.native.set_variable(number, var)
        # The builder also adds constants for defaults.
        made, at = [], there.start if last is None else last.next
        while at is not None and (before is None or at.op is not where["before_op"]):
            made.append(at.op)
            at = at.next
        # A constant that becomes a block's result replaces no op. It takes the scope of the old result, or of
        # the op that holds the block.
        stands_for = [self.native.op(number) for number in edit.sources]
        if not stands_for:
            was = sorted(block.outputs, key=lambda v: v.name not in edit.result_names)
            stands_for = [op for op in [*(v.op for v in was), block.outer_op] if op is not None]
        for one in made:
            self._scope_as(one, stands_for)
        return made

    def _builder(self, new):
        """The function that fills a block of a new op. coremltools may call it several times; the last call
        counts."""
        from coremltools.converters.mil.mil.block import curr_block

        def build(*variables):
            for given, var in zip(new.inputs, variables, strict=True):
                var.name = given.name
                self.native.set_variable(given.value, var)
            for edit in new.ops:
                self._make_op(curr_block(), edit)
            values = tuple(self.native.variable(r.value) for r in new.results)
            return values[0] if len(values) == 1 else values

        return build

    def _value(self, constant):
        """An OpEdit's constant in coremltools' form."""
        if isinstance(constant, int):
            return self.native.variable(constant).val
        if isinstance(constant, _sardonyx.coreml.ArrayView):
            return self._viewed(constant)
        value = self._as_coremltools_has_it(constant.numpy())
        if value.dtype == object:
            value = value[()] if value.shape == () else value
            return value.decode() if isinstance(value, bytes) else value
        if value.shape == ():  # coremltools' own passes write True
            return bool(value) if value.dtype == bool else value[()]
        return value

    @staticmethod
    def _viewed(view):
        """An array of the program: itself, or a view of it."""
        array, shape = view.array, view.shape
        if array.shape == shape and array.flags.c_contiguous:
            return array
        return np.lib.stride_tricks.as_strided(array, shape, [s * array.itemsize for s in view.strides])

    def _as_coremltools_has_it(self, value):
        """Elements narrower than a byte are bytes in coremltools, with the width in their dtype."""
        if value.dtype.kind == "V" and value.dtype.name in _NARROW:
            whole = value.astype(np.uint8 if value.dtype.name.startswith("u") else np.int8)
            return whole.astype(self.types.nptype_from_builtin(self.types.string_to_builtin(value.dtype.name)))
        return value

    def _scope_as(self, op, sources) -> None:
        """Gives a new op the scopes of the first source that has any."""
        from coremltools.converters.mil.mil.scope import ScopeSource

        for source in sources:
            if source.scopes:
                op.scopes = {k: list(v) for k, v in source.scopes.items()}
                break
        graph_pass = op.scopes.setdefault(ScopeSource.COREMLTOOLS_GRAPH_PASS, [])
        if self.pass_names not in graph_pass:
            graph_pass.append(self.pass_names)


def run(
    prog,
    passes: Sequence[str],
    options: Sequence[tuple[str, Any]],
    usual: Sequence[tuple[str, Any]] = (),
    strict: bool = True,
) -> dict[str, Any]:
    """Runs passes on the program in place. Returns a report of each.

    `usual` are defaults. Options are {"pass.option": value}. `add_fp16_cast.op_selector` is a predicate on
    ops as they are before the first of the passes, and so is `add_int16_cast.op_selector`.
    """
    asked = bool(options) and strict  # the pass itself checks the values of options
    options = [*_as_coremltools(passes), *options, *usual, *_coreml_interface.options(prog, passes, options)]
    if not options and len(passes) == 1 and (name := passes[0].split("::")[-1]) in _coreml_interface.BY_OPTION:
        return {"passes": [{"name": name, "changed": False, "seconds": 0.0, "error": ""}], "faults": []}
    selectors = {
        k.split("::")[-1].partition(".")[0]: v for k, v in options if k.endswith(".op_selector") and v is not None
    }
    texts = [_option(k, v) for k, v in options if k.rsplit(".", 1)[-1] != "op_selector"]
    for name, selector in selectors.items():
        _check_selector(name, selector, passes, [k for k, _ in texts])
    wanted = request({"passes": list(passes), "fold_budget": 1 << 62, "strict": strict}, texts)
    report = None if asked else _sardonyx.coreml.idle_report(_coreml_interface.functions(prog), wanted)
    if report is None and not asked and [p.split("::")[-1] for p in passes] == ["dedup_op_and_var_names"]:
        report = _sardonyx.coreml.rename_repeated(_coreml_interface.functions(prog))
    if report is not None:
        return report
    session = ProgramSession(prog)
    session.import_program()
    for name, selector in selectors.items():
        session.select(name, selector)
    report = session.run(wanted)
    if any(p["changed"] for p in report["passes"]):
        session.apply_edits(", ".join(p.split("::")[-1] for p in passes))
    return report


def _as_coremltools(passes: Sequence[str]) -> list[tuple[str, Any]]:
    """coremltools' programs get what its own passes would do, which protect nothing from half precision."""
    return [(f"{name}.protect", False) for name in SELECTING if any(p.split("::")[-1] == name for p in passes)]


def _check_selector(name: str, op_selector, passes: Sequence[str], options: Sequence[str]) -> None:
    if name not in SELECTING or not any(p.split("::")[-1] == name for p in passes):
        raise Error(f"{', '.join(passes)}: only {' and '.join(SELECTING)} have the option 'op_selector'")
    if not callable(op_selector):
        raise WrongType(f"op_selector is a function of an op, not {type(op_selector).__name__}")
    if any(k.rsplit(".", 1)[-1] == "skip_ops_by_type" for k in options):
        raise Error(
            "add_fp16_cast takes skip_ops_by_type or op_selector, not both",
            notes=("help: let op_selector look at op.op_type",),
        )
