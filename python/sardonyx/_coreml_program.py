"""Passes on programs of coremltools in memory: told to native code op by op, and changed in place as it says.

Ops and variables that a pass leaves alone stay the objects that they were. New ops are made by coremltools' own builder, so that types,
symbols and values are its own.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx import _coreml_interface, _sardonyx
from sardonyx._error import Error, WrongType
from sardonyx._optimize import _option, _request

_DTYPES = {
    "fp16": "f16", "fp32": "f32", "fp64": "f64", "double": "f64", "int4": "i4", "int8": "i8", "int16": "i16", "int32": "i32",
    "int64": "i64", "uint1": "u1", "uint2": "u2", "uint3": "u3", "uint4": "u4", "uint6": "u6", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "bool": "bool", "str": "str", "string": "str", "complex64": "c64",
}  # fmt: skip
# Element types that arrays have as they are here: numbers of DType.
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
# Passes that take a predicate on ops, and the attribute that marks what it refuses.
SELECTING = {"add_fp16_cast": "keep_fp32", "add_int16_cast": "keep_int32"}
# What they leave alone whoever asks.
_NEVER_CAST = frozenset(
    "const cast while_loop cond make_list list_gather list_scatter list_read list_write list_length read_state coreml_update_state".split()
)


def _mil():
    """coremltools' parts that this needs; imported on use."""
    try:
        from coremltools import _OPSET
        from coremltools.converters.mil import mil
        from coremltools.converters.mil.mil.utils import CacheDoublyLinkedList
    except ImportError:
        raise Error(
            "coremltools is not installed, and its programs are its objects", notes=["help: pip install coremltools"]
        ) from None
    return mil, _OPSET, CacheDoublyLinkedList


def require_coremltools() -> None:
    """An error that says what to install where it is missing."""
    _mil()


def require_program(prog) -> None:
    """Whether it is a program of coremltools; says what to do with what else people have."""
    mil, _, _ = _mil()
    if isinstance(prog, mil.Program):
        return
    help_ = "expected a Program of coremltools"
    if isinstance(getattr(prog, "_mil_program", None), mil.Program):
        help_ = "help: the program of a converted model is model._mil_program"
    elif isinstance(prog, (str, bytes, os.PathLike)) or type(prog).__module__ == "sardonyx.coreml":
        help_ = "help: sardonyx.coreml.optimize(path_or_bytes, passes=[...]) runs passes on files"
    elif isinstance(prog, mil.Function):
        help_ = "help: program.add_function(name, function), and pass the program"
    raise WrongType(f"passes run on a Program of coremltools, not on {type(prog).__name__}", notes=(help_,))


class _Teller:
    """Lets native code read a program, and changes it to what comes back."""

    def __init__(self, prog):
        mil, self.opsets, self.op_list = _mil()
        self.mb, self.types = mil.Builder, mil.types
        self.prog = prog
        versions = [int(f.opset_version) for f in prog.functions.values() if f.opset_version is not None]
        self.version = max(versions, default=4)
        self.bridge = _sardonyx.coreml.Bridge(self.version)
        self.narrow, self.narrow_count = {}, 0

    # --- there

    def tell(self) -> None:
        self.bridge.tell(
            _coreml_interface.functions(self.prog), self._spell_type, self._version, self._payload, self._opset
        )

    def select(self, pass_name: str, op_selector) -> None:
        """add_fp16_cast, or add_int16_cast, is to change only ops that the predicate accepts."""
        for number, op in enumerate(self.bridge.ops()):
            if op.op_type not in _NEVER_CAST and not op_selector(op):
                self.bridge.keep(number, SELECTING[pass_name])

    def _opset(self, function) -> str:
        version = int(function.opset_version) if function.opset_version is not None else self.version
        return self.opsets.get(version, "")

    def _version(self, op) -> int:
        try:
            version = op.opset_version
        except AttributeError:  # ops of a frontend have one version
            version = None
        return int(version) if version is not None else self.version

    def _spell_type(self, t) -> str:
        types = self.types
        if types.is_tensor(t):
            dims = [self._size(d) for d in t.get_shape()]
            element = _DTYPES.get(types.builtin_to_string(t.get_primitive()), "?")
            return f"{element}[...]" if None in dims else f"{element}[{','.join(dims)}]"
        if types.is_list(t):
            length = t.T[1] if isinstance(t.T[1], int) else "?"
            return f"list({self._spell_type(t.T[0]) or '?'}, {length})"
        if types.is_state(t):
            return f"state({self._spell_type(t.wrapped_type())})"
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
        """What native code looks at: a text or an array, and its element type; (None, 0) where it should not look.

        Elements narrower than a byte: a number that stands for them, and -1.
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
        # Fewer bits than a byte are packed in files and not here: their values are not looked at.
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

    # --- and back

    def change(self, pass_names: str) -> None:
        self.pass_names = pass_names
        for name, function in _coreml_interface.functions(self.prog).items():
            changes = self.bridge.changes(name)
            if changes is None:
                continue
            names_before = [v.name for v in function.outputs]
            for number, var in _coreml_interface.change_inputs(function, changes[4]):
                self.bridge.remember(number, var)
            self._change_block(function, changes)
            _coreml_interface.tell_renamed("output", names_before, [v.name for v in function.outputs])
        old = list(self.prog.functions.values())
        for name in self.bridge.new_functions():
            self._make_function(name, old)

    @contextlib.contextmanager
    def _inside(self, block):
        """As `with block`, which looks at all its ops in the end, for values that must not be lost: those made of constexpr ops."""
        from coremltools.converters.mil.mil import block as blocks

        if self.bridge.has_constexpr():
            with block:
                yield
            return
        blocks.BLOCK_STACK.append(block)
        try:
            yield
        finally:
            blocks.BLOCK_STACK = blocks.BLOCK_STACK[:-1]

    def _change_block(self, block, changes) -> None:
        if changes is None:
            return
        edits, gone, results, order, _ = changes
        made = {}
        if all(edit[0] is not None for edit in edits) and results is None:
            self._edit(block, edits)
        else:
            with self._inside(block):
                made = self._edit(block, edits)
                if results is not None:
                    self._return(block, results)
        if gone:
            ops = [self.bridge.op(number) for number in gone]
            for op in ops:
                for inner in op.blocks:
                    self._empty(inner)
            block.remove_ops(ops)
        if order is not None:
            ops = []
            for number in order:
                ops.extend([self.bridge.op(number)] if number >= 0 else made[-1 - number])
            seen = set(map(id, ops))
            ops.extend(op for op in block.operations if id(op) not in seen)  # identities that keep names of results
            block.operations = self.op_list(ops)

    def _edit(self, block, edits) -> dict[int, list]:
        made = {}
        for i, edit in enumerate(edits):
            if edit[0] is not None:
                self._change_op(self.bridge.op(edit[0]), edit)
            else:
                made[i] = self._make_op(block, edit)
        return made

    def _return(self, block, wanted) -> None:
        is_function = block.outer_op is None
        results = []
        for name, number in wanted:
            var = self.bridge.var(number)
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
        """What a block that goes reads from outside is not read any more."""
        block.set_outputs([])
        ops = list(block.operations)
        for op in ops:
            for inner in op.blocks:
                self._empty(inner)
        block.remove_ops(ops)

    def _change_op(self, op, edit) -> None:
        _, _, name, operands, results, names, blocks, _, _, other_types = edit
        if len(results) != len(op.outputs):
            self._narrow_loop(op, results, blocks)
            blocks = [None] * len(blocks)
        changed = {}
        for slot, _, numbers in operands:
            values = [self.bridge.var(n) for n in numbers]
            old = op.inputs.get(slot)
            old_list = list(old) if isinstance(old, (list, tuple)) else [old]
            if len(old_list) != len(values) or any(a is not b for a, b in zip(old_list, values, strict=True)):
                changed[slot] = tuple(values) if isinstance(old, (list, tuple)) else values[0]
        if changed:
            op.set_inputs(no_check_var_types=True, **changed)
        if other_types:
            op.type_value_inference(overwrite_output=True)
        if name and op.name != name:
            op.name = name
        for var, var_name in zip(op.outputs, names, strict=True):
            if var_name and var.name != var_name:
                var.name = var_name
        for block, changes in zip(op.blocks, blocks, strict=True):
            self._change_block(block, changes)

    def _narrow_loop(self, op, results, blocks) -> None:
        """A while_loop has lost variables: those that its blocks no longer take."""
        still = [{id(self.bridge.var(number)) for number, _, _ in changes[4]} for changes in blocks]
        keep = [i for i, v in enumerate(op.blocks[1].inputs) if id(v) in still[1]]
        for number, i in zip(results, keep, strict=True):
            self.bridge.remember(number, op.outputs[i])
        for block, changes, inputs in zip(op.blocks, blocks, still, strict=True):
            self._change_block(block, changes)
            block.remove_inputs([v for v in block.inputs if id(v) not in inputs])
        for i, v in enumerate(op.loop_vars):
            if i not in keep:
                v.remove_child_op(op)
        op.loop_vars = tuple(op.loop_vars[i] for i in keep)
        op._input_vars["loop_vars"] = op.loop_vars
        op._output_vars = [op.outputs[i] for i in keep]

    def _make_function(self, name: str, old: Sequence[Any]) -> None:
        """A copy of one of the old functions, for sizes that are known."""
        from coremltools import target as AvailableTarget
        from coremltools.converters.mil.mil import Function

        opset, inputs, (_, edits, results) = self.bridge.whole_function(name)
        target = next((t for t in AvailableTarget if self.opsets.get(int(t)) == opset), None)
        symbols = {
            str(d): d for f in old for v in f.inputs.values() if not self.types.is_list(v.sym_type) for d in v.shape
        }
        builtin = {v: k for k, v in _DTYPES.items()}
        placeholders = {}
        for input_name, text, _ in inputs:
            element, _, sizes = text.removeprefix("state(").rstrip("])").partition("[")
            shape = tuple(self._open_size(d, symbols) for d in sizes.split(",") if d)
            make = self.mb.state_tensor_placeholder if text.startswith("state(") else self.mb.placeholder
            placeholders[input_name] = make(shape, self.types.string_to_builtin(builtin[element]))
        weights = {op.name: op for f in old for op in f.operations if op.op_type == "const"}
        with Function(inputs=placeholders, opset_version=target) as function:
            for input_name, _, number in inputs:
                self.bridge.remember(number, function.inputs[input_name])
            for edit in edits:
                for op in self._make_op(function, edit):
                    source = weights.get(op.name) if op.op_type == "const" else None
                    if source is not None:  # functions share weights by these names
                        if source.weight_id is None:
                            source.weight_id = f"const_{source.outputs[0].name}_weight_id"
                        op.weight_id = source.weight_id
                        if getattr(source, "weight_key", None) is not None:
                            op.weight_key = source.weight_key
            function.set_outputs([self.bridge.var(number) for _, number in results])
        self.prog.add_function(name, function)

    @staticmethod
    def _open_size(text: str, symbols):
        """A size as coremltools has it: a number, a symbol or expression of the old functions, or what is left of one."""
        if text.isdigit():
            return int(text)
        if text in symbols:
            return symbols[text]
        import sympy

        return sympy.sympify(text, locals={s.name: s for d in symbols.values() for s in getattr(d, "free_symbols", ())})

    def _make_op(self, block, edit) -> list:
        _, kind, name, operands, results, names, blocks, sources, before, _ = edit
        where = {} if before is None else {"before_op": self.bridge.op(before)}
        if name:
            where["name"] = name
        there = block.operations
        last = there.end if before is None else there._get_node_from_op(where["before_op"]).prev
        if not isinstance(kind, str):
            value = self.bridge.var(kind).val if isinstance(kind, int) else self._value(kind)
            out = self.mb.const(val=value, **where)
        else:
            given = {
                slot: tuple(map(self.bridge.var, numbers)) if is_list else self.bridge.var(numbers[0])
                for slot, is_list, numbers in operands
            }
            given |= dict(zip(_BLOCKS.get(kind, ()), map(self._builder, blocks), strict=True))
            out = getattr(self.mb, kind)(**given, **where)
        out = list(out) if isinstance(out, (list, tuple)) else [out]
        for var, number, var_name in zip(out, results, names, strict=True):
            if var_name:
                var.name = var_name
            self.bridge.remember(number, var)
        # With it come constants for what has a default.
        made, at = [], there.start if last is None else last.next
        while at is not None and (before is None or at.op is not where["before_op"]):
            made.append(at.op)
            at = at.next
        # Constants that become results of a block stand for no op: they are where the result was, or the op that holds the block.
        stands_for = [self.bridge.op(number) for number in sources]
        if not stands_for:
            was = sorted(block.outputs, key=lambda v: v.name not in names)
            stands_for = [op for op in [*(v.op for v in was), block.outer_op] if op is not None]
        for one in made:
            self._scope_as(one, stands_for)
        return made

    def _builder(self, told):
        """What coremltools calls to fill a block of a new op. It may call it several times: the last one counts."""
        from coremltools.converters.mil.mil.block import curr_block

        inputs, edits, results = told

        def build(*variables):
            for (name, number), var in zip(inputs, variables, strict=True):
                var.name = name
                self.bridge.remember(number, var)
            for edit in edits:
                self._make_op(curr_block(), edit)
            values = tuple(self.bridge.var(number) for _, number in results)
            return values[0] if len(values) == 1 else values

        return build

    def _value(self, tensor):
        if isinstance(tensor, tuple):
            return self._seen_as(*tensor)
        value = self._as_coremltools_has_it(tensor.numpy())
        if value.dtype == object:
            value = value[()] if value.shape == () else value
            return value.decode() if isinstance(value, bytes) else value
        if value.shape == ():  # coremltools' own passes write True
            return bool(value) if value.dtype == bool else value[()]
        return value

    @staticmethod
    def _seen_as(array, shape, strides):
        """An array that is there already: itself, or a view of it."""
        if array.shape == shape and array.flags.c_contiguous:
            return array
        return np.lib.stride_tricks.as_strided(array, shape, [s * array.itemsize for s in strides])

    def _as_coremltools_has_it(self, value):
        """Fewer bits than a byte are bytes there, whose dtype says how many they are."""
        if value.dtype.kind == "V" and value.dtype.name in _NARROW:
            whole = value.astype(np.uint8 if value.dtype.name.startswith("u") else np.int8)
            return whole.astype(self.types.nptype_from_builtin(self.types.string_to_builtin(value.dtype.name)))
        return value

    def _scope_as(self, op, sources) -> None:
        """A new op is where the op was that it stands for."""
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
    """Runs passes on the program, which is changed in place; returns what each did.

    `usual` are options that nobody asked for. Options are {"pass.option": value}. `add_fp16_cast.op_selector` is a predicate on ops as they are before the first of the passes, and
    so is `add_int16_cast.op_selector`.
    """
    asked = bool(options) and strict  # what an option is set to is checked by the pass itself
    options = [*options, *usual, *_coreml_interface.options(prog, passes, options)]
    if not options and len(passes) == 1 and (name := passes[0].split("::")[-1]) in _coreml_interface.BY_OPTION:
        return {"passes": [{"name": name, "changed": False, "seconds": 0.0, "error": ""}], "faults": []}
    selectors = {
        k.split("::")[-1].partition(".")[0]: v for k, v in options if k.endswith(".op_selector") and v is not None
    }
    texts = [_option(k, v) for k, v in options if k.rsplit(".", 1)[-1] != "op_selector"]
    for name, selector in selectors.items():
        _check_selector(name, selector, passes, [k for k, _ in texts])
    request = _request(passes=list(passes), options=texts, fold_budget=1 << 62, strict=strict)
    report = None if asked else _sardonyx.coreml.run_nothing(_coreml_interface.functions(prog), request)
    if report is None and not asked and [p.split("::")[-1] for p in passes] == ["dedup_op_and_var_names"]:
        report = _sardonyx.coreml.rename_repeated(_coreml_interface.functions(prog))
    if report is not None:
        return report
    teller = _Teller(prog)
    teller.tell()
    for name, selector in selectors.items():
        teller.select(name, selector)
    report = teller.bridge.run(request)
    if any(p["changed"] for p in report["passes"]):
        teller.change(", ".join(p.split("::")[-1] for p in passes))
    return report


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
