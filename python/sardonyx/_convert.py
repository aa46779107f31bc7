"""`sardonyx.to_onnx`: a thin front. Equations are read, lowered and written by native code."""

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sardonyx import _sardonyx as native
from sardonyx import _source, plugins
from sardonyx import report as reports
from sardonyx._error import Error
from sardonyx._require import known_keywords, one_of, require, warn
from sardonyx._trace import expand as _expand
from sardonyx._trace import functions as _functions
from sardonyx._trace import inputs as _inputs
from sardonyx._trace import size_branches as _size_branches
from sardonyx._trace import state as _state
from sardonyx._trace import trace as _trace
from sardonyx._trace import training_mode as _training_mode
from sardonyx._values import precision_of

# Opsets that the lowerings support.
_OLDEST_OPSET, _NEWEST_OPSET = 7, 28
_DEFAULT_OPSET = 23


@dataclass(frozen=True)
class Jax2onnx:
    """What only `sardonyx.compat.jax2onnx` has."""

    normalization: Literal["auto", "prefer_native", "force_decomposed"] = "auto"
    one_file: bool = False  # the weights stay in the model's file
    record: str | os.PathLike | None = None  # a file that lists the program's equations


@known_keywords
def to_onnx(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None = None,
    model_name: str = "jax_model",
    opset: int | None = None,
    *,
    enable_double_precision: bool = False,
    return_mode: Literal["proto", "ir", "file"] | None = None,
    output_path: str | os.PathLike | None = None,
    inputs_as_nchw: Sequence[int] | None = None,
    outputs_as_nchw: Sequence[int] | None = None,
    input_names: Sequence[str] | Literal["positional"] | None = None,
    output_names: Sequence[str] | Literal["positional"] | None = None,
    functions: Literal["decorated", "auto"] = "decorated",
    target: str | None = None,
    check: bool = False,
    shadow: str | Callable[..., Any] | None = None,
    custom_ops: Mapping[str, str] | None = None,
    passes: str | Sequence[str] = "onnx",
    precision: str | None = None,
    strict: bool = False,
    provenance: Literal["off", "line", "full"] | bool = "line",
    debug_dump: str | os.PathLike | None = None,
    trace: str | os.PathLike | None = None,
    return_report: bool = False,
    _jax2onnx: Jax2onnx = Jax2onnx(),  # noqa: B008 (it is frozen)
):
    """Export a JAX function as ONNX.

    Args:
        fn: Anything that `jax.make_jaxpr` traces: a function, a Flax NNX or Equinox module, a bound method.
        inputs: One entry per argument: a shape such as `("B", 224, "2*T+1")` (float32, or float64 with
            `enable_double_precision`), a string such as `"i32[B,T]"`, a `jax.ShapeDtypeStruct`, an array, a
            number, or a pytree of these other than shapes. Names in shapes stay dynamic; `"B >= 2"` also
            states what holds.
        input_params: Keyword arguments of `fn` that become inputs of the model under their own names; of a
            pytree, its arrays. Strings, other values that are not numbers, and flags that the function
            branches on in Python become constants.
        model_name: The name of the graph.
        opset: The ONNX opset, 7 to 28. Default: 23, or the newest that the target loads.
        enable_double_precision: Trace with 64-bit types. Otherwise float64 arrays become float32, with a
            warning.
        return_mode: "proto" returns an `onnx.ModelProto`, "ir" a `sardonyx.ir.Model`, "file" returns
            `output_path`. Default: "file" if that is given, else "proto".
        output_path: The file to write. Weights go to a file beside it when the model exceeds 2 GiB.
        inputs_as_nchw: Positions of inputs that the model takes as NCHW where `fn` takes NHWC.
        outputs_as_nchw: Positions of results that the model returns as NCHW where `fn` returns NHWC.
        input_names: Names instead of those of the signature; "positional" gives in_0, in_1, ...
        output_names: Names instead of the paths in the result; "positional" gives out_0, out_1, ...
        functions: What becomes functions of the model: "decorated" what `@sardonyx.onnx_function` marks,
            "auto" also parts of the finished graph that repeat (the blocks of a transformer, say), with their
            weights as operands.
        target: A runtime that must run the model, such as "ort-1.17" (onnxruntime's CPU provider). It sets
            the opset and the IR version; operators that it lacks are replaced by others.
        check: Compare with JAX in onnxruntime, at two sizes, before returning. A difference is an error that
            names the first equation that differs, with its line.
        shadow: Another exporter to compare with: "jax2onnx", or a function of (fn, inputs) that returns an
            `onnx.ModelProto`. `shadow` of the report has the differences in structure and results.
        custom_ops: Primitives that become nodes of your own domain, as in {"pure_callback":
            "my.domain::MyOp"}: a primitive, or the name of the function that a callback, foreign call or
            Pallas kernel runs. No runtime knows the operator before you have registered it.
        passes: "onnx" (the default pipeline), "none", the name of another pipeline, a list of passes, or a
            file of them.
        precision: "f16": compute in half precision, and store weights in it, but for what that would make wrong. Inputs
            and results keep their dtypes. Functions are inlined.
        strict: Raise when a pass fails. Otherwise it is skipped and reported.
        provenance: How much of each node's origin is written: "off", "line" or "full"; True is "line", False
            is "off".
        debug_dump: A folder for the graph as text before lowering, after it, and after the passes.
        trace: A file (.sxt) for the steps from the traced program to the model, which `sardonyx view FILE.sxt -o page.html`
            draws.
        return_report: Return (model, report): seconds by stage, nodes by operator, bytes.

    Raises:
        sardonyx.Error: says what was found, what was expected and what to do. No partial file remains.
    """
    if not callable(fn):
        raise Error(f"fn must be callable, found {type(fn).__name__}")
    if return_mode is None:
        return_mode = "proto" if output_path is None else "file"
    one_of("return_mode", return_mode, ("proto", "ir", "file"))
    one_of("functions", functions, ("decorated", "auto"))
    if isinstance(provenance, bool):
        provenance = "line" if provenance else "off"
    one_of("provenance", provenance, ("off", "line", "full"))
    if not isinstance(model_name, str):
        raise Error(f"model_name must be a string, found {model_name!r}")
    target, opset = _target(target, opset)
    path = _output_path(output_path, return_mode)
    if path is not None:
        native.require_output_name(path)
    if custom_ops and check:
        raise Error("check=True cannot run custom_ops", notes=["help: register the operators in a session of your own"])
    wanted_passes, pass_options = _passes(passes)
    if precision is not None:
        pass_options = [*pass_options, ("precision", precision_of(precision))]
    if trace is not None and not os.fspath(trace).endswith(".sxt"):
        raise Error(f"trace={os.fspath(trace)!r} does not end in .sxt, the suffix of steps")

    report = reports.Report(model_name)
    program, spec, lowerings = _read_program(
        report,
        fn,
        inputs,
        input_params,
        enable_double_precision=enable_double_precision,
        inputs_as_nchw=inputs_as_nchw,
        outputs_as_nchw=outputs_as_nchw,
        input_names=input_names,
        output_names=output_names,
        provenance=provenance,
        custom_ops=custom_ops,
    )
    if _jax2onnx.record is not None:
        _record(program, _jax2onnx.record)
    options = {
        "opset": opset,
        "passes": wanted_passes,
        "pass_options": pass_options,
        "strict": strict,
        "provenance": provenance,
        "normalization": _jax2onnx.normalization,
        "target": target,
        "lowerings": lowerings,
        "outline": functions == "auto",
    }
    dump = "" if debug_dump is None else os.fspath(debug_dump)
    model = _lowered(report, program, dump=dump, with_steps=trace is not None, **options)
    del program  # frees its memory for the next stages
    layouts = inputs_as_nchw, outputs_as_nchw
    if check:
        with _Stage(report, "check"):
            from sardonyx._check import with_jax as _check

            export = _part_exporter(opset, target, lowerings)
            _check.check_export(fn, model, spec, *layouts, enable_double_precision, export=export)
    if shadow is not None:
        with _Stage(report, "shadow"):
            from sardonyx._check import shadow as _shadow

            double = enable_double_precision
            report.shadow = _shadow.compare(shadow, fn, inputs, input_params, model, spec, opset, double, *layouts)
    with _Stage(report, "write"):
        result = _written(report, model, return_mode, path, one_file=_jax2onnx.one_file)
        if trace is not None:
            os.makedirs(os.path.dirname(os.fspath(trace)) or ".", exist_ok=True)
            native.write_steps(os.fspath(trace), model)
    reports.finished(report)
    return reports.Reported(result, report) if return_report else result


def _lowered(report, program, **options):
    """The native model of a program, lowered and optimized."""
    with _one_error(f"converting {report.model_name}"):
        model = native.convert(program, name=report.model_name, libraries=plugins._paths(), **options)
    for text in model.not_converged:
        warn(text)
    report.stages["lower"] = model.lower_seconds
    report.stages["optimize"] = model.optimize_seconds
    report.nodes = model.num_nodes()
    report.ops = model.op_counts()
    return model


def _part_exporter(opset, target, lowerings):
    """Returns export(closed jaxpr, data_sizes), which converts a part of the program without passes."""

    def export(closed, data_sizes):
        part = native.import_jaxpr(
            closed,
            const_names=[""] * len(closed.consts),
            data_sizes=data_sizes,
            keep_equations=plugins._lowered(lowerings),
        )
        return native.convert(part, opset=opset, target=target, lowerings=lowerings, libraries=plugins._paths())

    return export


def _written(report, model, return_mode, path, one_file):
    """Writes the model to `path`, if there is one. Returns it in the requested form: its path, an ir.Model or an
    onnx.ModelProto."""
    if path is not None:
        report.bytes = model.save(path, one_file=one_file)
        report.path = path
    if return_mode == "file":
        return path
    return model.to_ir() if return_mode == "ir" else _to_proto(model, report)


def save_program(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    path: str | os.PathLike,
    input_params: Mapping[str, Any] | None = None,
    model_name: str = "jax_model",
    **options,
) -> str:
    """Trace `fn` and save the program: text (`path`, usually x.sx) with its weights beside it (x.sxw).

    `sardonyx convert x.sx -o x.onnx` converts it later, without Python. Options are those of `to_onnx` that
    concern tracing: enable_double_precision, inputs_as_nchw, outputs_as_nchw, input_names, output_names,
    provenance.
    """
    target = _output_path(path, "file")
    assert target is not None
    program, _, _ = _read_program(reports.Report(model_name), fn, inputs, input_params, **options)
    program.save(target)
    return target


def _read_program(
    report,
    fn,
    inputs,
    input_params,
    *,
    enable_double_precision=False,
    inputs_as_nchw=None,
    outputs_as_nchw=None,
    input_names=None,
    output_names=None,
    provenance="line",
    custom_ops=None,
):
    """Traces the function and imports the jaxpr: (native.Program, _inputs.Inputs, Python lowerings by
    primitive)."""
    with _trace.x64(enable_double_precision):
        native.prepare()
        with _Stage(report, "trace"):
            narrowed = []
            spec = _inputs.normalize(fn, inputs, input_params, enable_double_precision, narrowed.append)
            if narrowed:
                more = f" (and {len(narrowed) - 1} more)" if len(narrowed) > 1 else ""
                warn(narrowed[0] + more)
            _check_positions("inputs_as_nchw", inputs_as_nchw, spec.positional)
            with (
                plugins._active() as lowerings,
                _functions.exporting() as functions,
                _training_mode.watched() as batch_norms,
                _size_branches.watched() as spec.branches,
            ):
                closed, shapes = _trace.trace(fn, spec)
                while functions.leaves_values_behind(closed):
                    closed, shapes = _trace.trace(fn, spec)
                traced = _expand.without_high_values(closed)
                closed, spec.state = _state.without_references(traced, spec.references)
            if baked := _training_mode.warning(fn, traced, batch_norms):
                warn(baked)
            if taken := _size_branches.warning(_source.callable_name(fn), spec.branches):
                warn(taken)
            if prints := _trace.prints(traced):
                warn(f"{prints}: a model does not print, so this is left out")
            if custom_ops:
                from sardonyx._trace import custom_ops as _custom_ops

                lowerings = {**lowerings, **_custom_ops.lowerings(custom_ops, closed)}
            if not closed.jaxpr.outvars:
                raise Error(f"{_source.callable_name(fn)} returns no arrays: there is nothing to export")
            names_in = _input_names(spec, input_names) + _captured_names(fn, traced, spec)
            names_out = _output_names(shapes, [names_in[i] for i in spec.state.changed], output_names, names_in)
            _check_positions("outputs_as_nchw", outputs_as_nchw, len(names_out))
            spec.state.results = names_out
            kept = names_out[len(names_out) - len(spec.state.changed) :]
            spec.state.pairs = [
                (names_in[i], name, closed.jaxpr.invars[i].aval)
                for i, name in zip(spec.state.changed, kept, strict=True)
            ]
        with (
            _Stage(report, "import"),
            _one_error(f"reading the program of {_source.callable_name(fn)}"),
        ):  # may trace the program behind a primitive
            program = native.import_jaxpr(
                closed,
                name=report.model_name,
                input_names=names_in,
                output_names=names_out,
                const_names=native.weight_names(fn, closed),
                nchw_inputs=list(inputs_as_nchw or ()),
                nchw_outputs=list(outputs_as_nchw or ()),
                provenance=provenance,
                facts=spec.constraints,
                data_sizes=list(spec.data_sizes),
                keep_equations=plugins._lowered(lowerings),
            )
    report.equations = program.num_nodes()
    report.data_sizes = spec.data_sizes
    return program, spec, lowerings


@contextlib.contextmanager
def _one_error(doing: str):
    """Turns any other exception raised inside into an internal Error, which keeps its traceback."""
    try:
        yield
    except Error as e:
        raise e from e.__cause__
    except MemoryError:
        raise
    except Exception as e:
        text = f"{doing} failed: {type(e).__name__}: {_source.first_line(e)}"
        raise Error(text, "internal", ["help: this is a fault of Sardonyx; report it with the function"]) from e


class _Stage:
    """Adds the duration of its block to the report."""

    def __init__(self, report, name):
        self.report, self.name = report, name

    def __enter__(self):
        self.start = time.perf_counter()

    def __exit__(self, kind, *_):
        if kind is None:
            self.report.stages[self.name] = time.perf_counter() - self.start


def _to_proto(model, report):
    """Fills the message tensor by tensor, so that only one tensor is held twice."""
    onnx = require("onnx", "onnx")
    parts = model.serialize_apart(64 << 10)
    report.bytes = parts.file_bytes
    proto = onnx.ModelProto.FromString(parts.message())
    for tensor in _tensors(proto) if len(parts) else ():
        if tensor.external_data:
            offset = next(int(entry.value) for entry in tensor.external_data if entry.key == "offset")
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = parts.bytes_at(offset)
    return proto


def _tensors(proto):
    graphs = [proto.graph]
    nodes = [node for function in proto.functions for node in function.node]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            yield from graph.initializer
            yield from (part for x in graph.sparse_initializer for part in (x.values, x.indices))
            nodes += graph.node
            continue
        for a in nodes.pop().attribute:
            if a.HasField("t"):
                yield a.t
            elif a.HasField("sparse_tensor"):
                yield from (a.sparse_tensor.values, a.sparse_tensor.indices)
            elif a.HasField("g"):
                graphs.append(a.g)
            yield from a.tensors
            graphs += a.graphs


def _target(target, opset) -> tuple[str, int]:
    """The target's own name ("" for none) and the opset to write."""
    if target is not None and not isinstance(target, str):
        raise Error(f'target must be a name such as "ort-1.17", found {target!r}')
    name, newest = ("", _NEWEST_OPSET) if target is None else native.target(target)[:2]
    if opset is None:
        return name, min(_DEFAULT_OPSET, newest)
    if isinstance(opset, str) and opset.strip().isdigit():
        opset = int(opset)
    if not isinstance(opset, int) or not _OLDEST_OPSET <= opset <= _NEWEST_OPSET:
        raise Error(f"opset {opset} is not supported", notes=[f"expected {_OLDEST_OPSET} to {_NEWEST_OPSET}"])
    if opset > newest:
        raise Error(
            f"{name} loads opset {newest} at most, and {opset} was asked for",
            notes=["help: leave opset out, and the target chooses it"],
        )
    return name, opset


def _output_path(output_path, return_mode) -> str | None:
    if output_path is None:
        if return_mode != "file":
            return None
        raise Error('return_mode="file" needs output_path')
    path = os.fspath(output_path)
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise Error(f"cannot write {path}: it is a folder", "io")
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as e:
        raise Error(f"cannot write {path}: {e.strerror or e}", "io") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Error(f"cannot write {path}: no permission to write in {folder}", "io")
    return path


def _passes(passes) -> tuple[list[str], list[tuple[str, str]]]:
    """(names of passes, options): a file may set both."""
    if passes is None or passes == "none":
        return [], []
    if isinstance(passes, str):
        return native.read_pipeline(passes)
    if not isinstance(passes, Sequence) or not all(isinstance(p, str) for p in passes):
        raise Error('passes must be a name such as "onnx" or "none", a list of names, or a file of them')
    return list(passes), []


def _check_positions(option: str, positions, count: int) -> None:
    if positions is None:
        return
    if isinstance(positions, str) or not isinstance(positions, Sequence):
        raise Error(f"{option} takes a list of positions, found {positions!r}")
    for i, p in enumerate(positions):
        if not isinstance(p, int) or isinstance(p, bool) or not 0 <= p < count:
            raise Error(f"{option}: there is no position {p!r} among {count}")
        if p in positions[:i]:
            raise Error(f"{option} has {p} twice")


def _given_names(option: str, names) -> list[str]:
    if isinstance(names, (str, bytes)):
        raise Error(f'{option} must be a list of names or "positional", found {names!r}')
    names = list(names)
    for i, name in enumerate(names):
        if not isinstance(name, str) or not name.strip():
            raise Error(f"{option}[{i}] must be a non-empty string, found {name!r}")
        if name in names[:i]:
            raise Error(f"{option} has '{name}' twice")
    return names


def _input_names(spec, names) -> list[str]:
    params = spec.names[spec.positional :]
    if names is None:
        out = list(spec.names)
    elif names == "positional":
        out = [f"in_{i}" for i in range(spec.positional)] + params
    else:
        given = _given_names("input_names", names)
        if len(given) != spec.positional:
            raise Error(
                f"input_names has {len(given)} names for {spec.positional} inputs",
                notes=["the inputs are " + ", ".join(spec.names[: spec.positional])],
            )
        out = given + params
    if len(set(out)) < len(out):
        name = next(name for i, name in enumerate(out) if name in out[:i])
        raise Error(f"two inputs have the name '{name}'", notes=["help: choose names with input_names="])
    return out


def _captured_names(fn, traced, spec) -> list[str]:
    """Names of the references that the program captures and changes."""
    if not spec.state.captured:
        return []
    known = dict(zip(map(id, traced.consts), native.weight_names(fn, traced), strict=True))
    names = []
    for i, reference in enumerate(spec.state.captured):
        name = known[id(reference)] or f"state.{i}"
        while name in spec.names or name in names:
            name += "_"
        names.append(name)
    return names


def _output_names(shapes, changed, names, taken) -> list[str]:
    """Names of the results, then of the changed references: `changed` has their names as inputs."""
    automatic = _inputs.output_names(shapes, taken)
    for name in changed:
        name += ".out"
        while name in taken or name in automatic:
            name += "_"
        automatic.append(name)
    if names is None:
        return automatic
    if names == "positional":
        out = [f"out_{i}" for i in range(len(automatic))]
    else:
        out = _given_names("output_names", names)
        if len(out) != len(automatic):
            raise Error(
                f"output_names has {len(out)} names for {len(automatic)} results",
                notes=["the results are " + ", ".join(automatic)],
            )
    for name in out:
        if name in taken:
            raise Error(f"'{name}' names both an input and a result")
    return out


def _record(program, path) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(program.record())
    except OSError as e:
        raise Error(f"cannot write {os.fspath(path)}: {e.strerror or e}", "io") from None
