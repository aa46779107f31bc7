"""`python -m sardonyx export module:function --input f32[B,224,224,3] -o model.onnx`, and the other
commands."""

import argparse
import ast
import difflib
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

from sardonyx import _sardonyx, _source
from sardonyx._error import Error

SCHEMA = 1  # of --json: docs/command_line.md


def _add_traced(commands, name: str, what: str) -> argparse.ArgumentParser:
    """A command that traces a function."""
    command = commands.add_parser(name, help=what)
    command.add_argument(
        "function", help="module:function, module:object.method, or module:make() to call a factory first"
    )
    command.add_argument(
        "-i",
        "--input",
        action="append",
        default=[],
        metavar="SPEC",
        help='one per argument, in order: "f32[B,224,224,3]", "x=i32[B,T]", "x:B,3", "key[]"; a pytree as JSON: \'{"k": ["B", 16], "i": "i32[B]"}\'',
    )
    command.add_argument(
        "--plugin",
        action="append",
        default=[],
        dest="more_plugins",
        metavar="LIB.so",
        help="shared object with lowerings (sardonyx/plugin.h); repeatable",
    )
    command.add_argument("--double", action="store_true", help="64-bit types")
    command.add_argument(
        "-v", "--verbose", action="store_true", help="also print Python's traceback where the function fails"
    )
    command.add_argument("--json", action="store_true", help="machine-readable output: an array of objects")
    return command


class _Parser(argparse.ArgumentParser):
    """Refuses a wrong command line as the native command does, which checks it before Python starts."""

    def error(self, message):
        print(f"error: {message}\n  help: `{self.prog} --help`", file=sys.stderr)
        sys.exit(2)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="sardonyx", description="Export JAX functions as ONNX.")
    parser.add_argument("--plugin", action="append", default=[], metavar="LIB.so", help="as in the commands")
    commands = parser.add_subparsers(dest="command", required=True)
    export = _add_traced(commands, "export", "export a function, given as module:function")
    explain = _add_traced(commands, "explain", "list the primitives of a function, and whether it can be exported")
    explain.add_argument("--opset", type=int, default=None, help="as of export")
    explain.add_argument("--target", default=None, help="as of export")
    export.add_argument(
        "--trace", default=None, metavar="FILE.sxt", help="the steps, for `sardonyx view FILE.sxt -o page.html`"
    )
    export.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="the .onnx file to write, or a Core ML package (.mlpackage)",
    )
    export.add_argument("-q", "--quiet", action="store_true", help="print errors and warnings only")
    export.add_argument(
        "--opset", type=int, default=None, help="opset of the model (default: 23, or the newest that the target loads)"
    )
    export.add_argument(
        "--target",
        default=None,
        help="runtime that must run the model, such as ort-1.17; of packages: iOS15 to iOS18, iOS26",
    )
    export.add_argument(
        "--compute-precision", choices=("fp16", "fp32"), default=None, help="of packages (default: fp16)"
    )
    export.add_argument(
        "--state",
        action="append",
        default=[],
        metavar="INPUT=RESULT",
        help="of packages: an input that becomes a state",
    )
    export.add_argument(
        "--functions",
        choices=("decorated", "auto"),
        default="decorated",
        help="auto: repeated parts become functions, too",
    )
    export.add_argument(
        "--image-input",
        action="append",
        default=[],
        metavar="NAME:COLORS",
        help="of packages: an input that takes images",
    )
    for option, metavar, about in (
        ("--image-output", "NAME:COLORS", "a result that is an image"),
        ("--input-type", "NAME=fp16", "the element type of an input of floats, or of all"),
        ("--output-type", "NAME=fp16", "the element type of a result of floats, or of all"),
        ("--default-size", "T=128", "what a named size is by default, within its range"),
    ):
        export.add_argument(option, action="append", default=[], metavar=metavar, help=f"of packages: {about}")
    export.add_argument(
        "--enumerated-shape",
        action="append",
        default=[],
        metavar="NAME:1,3,224,224",
        help="of packages: one of the shapes that an input takes",
    )
    export.add_argument(
        "--class-labels", default=None, metavar="FILE", help="of packages: a file with the label of one class a line"
    )
    export.add_argument("--name", default=None, help="name of the graph (default: the function's)")
    export.add_argument("--passes", default="onnx", help='"onnx", "none", or names separated by commas')
    export.add_argument(
        "--check", action="store_true", help="compare with JAX: in onnxruntime; of packages, on the evaluator"
    )
    export.add_argument("--strict", action="store_true", help="stop when a pass fails")
    export.add_argument("--provenance", choices=("off", "line", "full"), default="line")
    export.add_argument("--input-names", default=None, metavar="A,B", help='names, or "positional"')
    export.add_argument("--output-names", default=None, metavar="A,B", help='names, or "positional"')
    export.add_argument("--inputs-as-nchw", default="", metavar="0,1")
    export.add_argument("--outputs-as-nchw", default="", metavar="0,1")
    export.add_argument("--web", action="store_true", help="write a single file, for the browser")
    profile = commands.add_parser("profile", help="show where an ONNX model spends its time in onnxruntime")
    profile.add_argument("function", metavar="model", help="an ONNX file")
    profile.add_argument("--against", default=None, metavar="MODEL", help="another model, whose times stand beside")
    profile.add_argument("--by", choices=("node", "operator", "module", "line"), default="node", help="what a row is")
    profile.add_argument("--most", type=int, default=20, metavar="N", help="how many rows")
    profile.add_argument("--input-shape", action="append", default=[], metavar="SHAPE", help="as x:1,3,224,224")
    profile.add_argument("--inputs", default=None, metavar="FILE", help="an .npz file with arrays by name")
    profile.add_argument("--runs", type=int, default=None, metavar="N", help="how many runs are counted")
    profile.add_argument("--threads", type=int, default=0, metavar="N", help="threads of one operator")
    profile.add_argument("--provider", action="append", default=[], metavar="NAME", help="execution provider")
    profile.add_argument("-o", "--output", default=None, metavar="FILE", help="a page of the model, colored by time")
    profile.add_argument("--json", action="store_true", help="machine-readable output: an array of objects")
    profile.set_defaults(verbose=False)
    commands.add_parser("lint-plugin", help="check the source of converter plugins", add_help=False)
    return parser


def find_function(text: str, takes_inputs: bool = False):
    """The object that "module:name.name" or "module:name()" names. With inputs, a function without parameters
    can only be a factory, and is called."""
    module_name, colon, path = text.partition(":")
    if not colon or not module_name or not path:
        raise _no_function(text)
    module = _module(module_name)
    make = path.endswith("()")
    value: Any = module
    done = module_name
    for part in path.removesuffix("()").split("."):
        if not hasattr(value, part):
            names = [n for n in dir(value) if not n.startswith("__")]
            meant = difflib.get_close_matches(part, names, n=1)
            callables = [n for n in names if not n.startswith("_") and callable(getattr(value, n, None))]
            note = (
                f"did you mean '{meant[0]}'?" if meant else f"it has: {', '.join(callables[:8])}" if callables else ""
            )
            raise Error(f"'{done}' has no '{part}'", notes=[note] if note else []) from None
        value = getattr(value, part)
        done = f"{done}{':' if value is getattr(module, part, None) else '.'}{part}"
    if make or (takes_inputs and _is_factory(value)):
        value = value()
    if not callable(value):
        raise Error(f"'{text}' is not a function: its type is {type(value).__name__}")
    return value


def _no_function(text: str) -> Error:
    """The error for a text without a module, a colon or a name, with what it may mean."""
    notes = ['expected module:function, as in "models.resnet:forward"']
    module, dot, name = text.rstrip(":").rpartition(".")
    if name == "py":
        notes.append(f"help: name a function of the file: {text.rstrip(':')}:NAME")
    elif dot and ":" not in text:
        notes.append(f"did you mean '{module}:{name}'?")
    return Error(f"'{text}' names no function", notes=notes)


def _with_advice(e: Error, text: str, fn) -> Error:
    """`e`, thrown for the function that `text` names, with a note where that is a factory or a class."""
    if text.endswith("()"):
        return e
    if inspect.isclass(fn):
        return Error(e.message, e.code, [*e.notes, f"help: {fn.__name__} is a class; '{text}()' makes an object of it"])
    if "returned a value of type <class 'function'>" in e.message:
        return Error(e.message, e.code, [*e.notes, f"help: '{text}()' calls it, and exports what it returns"])
    return e


def _is_factory(value) -> bool:
    if not inspect.isfunction(value):
        return False
    return not inspect.signature(value).parameters


def _module(name: str):
    """The module of that name, or in the file of that name."""
    folder = os.getcwd()
    if name.endswith(".py") or os.sep in name:
        path = Path(name if name.endswith(".py") else name + ".py").resolve()
        if not path.is_file():
            raise Error(f"there is no file '{path}'")
        folder, name = str(path.parent), path.stem
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        if e.name and not name.startswith(e.name):
            raise Error(
                f"importing {name} failed: {e.name} is not installed for {sys.executable}",
                notes=[f"at {_source.user_line(e)}", f"help: {sys.executable} -m pip install {e.name}"],
            ) from e
        near = sorted(p.stem for p in Path(folder).glob("*.py"))
        meant = difflib.get_close_matches(name, near, n=1)
        notes = [f"looked below {folder} and in Python's path"]
        raise Error(
            f"there is no module '{name}'", notes=[f"did you mean '{meant[0]}'?", *notes] if meant else notes
        ) from None
    except Exception as e:  # of the user's own code
        line = _source.user_line(e)
        text = f"importing {name} failed: {type(e).__name__}: {_source.first_line(e)}"
        raise Error(text, notes=[f"at {line}"] if line else []) from e


def _require_jax() -> None:
    try:
        importlib.import_module("jax")
    except ImportError as e:
        missing = isinstance(e, ModuleNotFoundError) and e.name in ("jax", "jaxlib")
        what = "JAX is not installed for" if missing else f"JAX cannot be imported ({e}) by"
        raise Error(
            f"{what} {sys.executable} (Python {'.'.join(map(str, sys.version_info[:3]))})",
            "unsupported",
            [
                f"help: {sys.executable} -m pip install 'sardonyx[jax]'",
                "help: or name another interpreter: SARDONYX_PYTHON=/path/to/python sardonyx ...",
            ],
        ) from None


def _inputs_of(texts: list[str]) -> list:
    """The arguments of -i: texts, and pytrees as JSON or as Python spells them."""
    return [_tree(text) if re.match(r"\s*(?:[{(]|\[\s*[\[{(\"'])", text) else text for text in texts]


def _tree(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as e:
        try:
            return ast.literal_eval(text.strip())
        except (ValueError, SyntaxError):
            raise Error(
                f"--input {text}: not JSON at column {e.colno}: {e.msg}",
                notes=['help: names and texts take quotes, as in \'{"k": ["B", 16], "i": "i32[B]"}\''],
            ) from None


def _names(text):
    return text if text in (None, "positional") else text.split(",")


def _positions(text):
    return [int(p) for p in text.split(",") if p]


def _head(command: str, name: str, ok: bool) -> dict[str, Any]:
    return {"schema": SCHEMA, "command": command, "input": name, "ok": ok}


def _print_json(*objects) -> None:
    print(json.dumps(list(objects), indent=2))


# Options of export.
_OF_PACKAGES = (
    "compute_precision",
    "state",
    "image_input",
    "image_output",
    "input_type",
    "output_type",
    "default_size",
    "enumerated_shape",
    "class_labels",
)


def _export_package(options, fn, name: str) -> int:
    """Writes a Core ML package."""
    import sardonyx

    for given, option in (
        (options.opset, "--opset"),
        (options.functions != "decorated", "--functions"),
        (options.web, "--web"),
        (options.double, "--double"),
    ):
        if given:
            raise Error(f"{option} is for ONNX models, and '{options.output}' is a Core ML package")
    inputs = _inputs_of(options.input)
    program = sardonyx.to_coreml(
        fn,
        inputs,
        model_name=name,
        output_path=options.output,
        minimum_deployment_target=options.target or "iOS17",
        compute_precision=options.compute_precision or "fp16",
        states=dict(_pair(s) for s in options.state),
        image_inputs=dict(text.partition(":")[::2] for text in options.image_input),
        image_outputs=dict(text.partition(":")[::2] for text in options.image_output),
        input_types=_types(options.input_type),
        output_types=_types(options.output_type),
        default_sizes=_sizes(options.default_size),
        enumerated_shapes=_shapes(options.enumerated_shape),
        class_labels=options.class_labels,
        inputs_as_nchw=_positions(options.inputs_as_nchw),
        outputs_as_nchw=_positions(options.outputs_as_nchw),
        input_names=_names(options.input_names),
        output_names=_names(options.output_names),
        passes="coreml" if options.passes == "onnx" else options.passes.split(","),
        trace=options.trace,
    )
    ops = program.op_counts()
    agreement = _agreement(options, fn) if options.check else None
    if options.json:
        _print_json(
            _head("export", options.function, True)
            | {"output": options.output, "model": name, "ops": ops}
            | ({"check": agreement} if agreement else {})
        )
    elif not options.quiet:
        print(f"{options.function} -> {options.output}: {sum(n for op, n in ops.items() if op != 'const')} ops")
        if agreement:
            print(f"  compared with JAX: {agreement}")
    return 0


def _shapes(texts: list[str]) -> dict[str, list[list[int]]]:
    found: dict[str, list[list[int]]] = {}
    for text in texts:
        name, colon, sizes = text.rpartition(":")
        try:
            shape = [int(size) for size in sizes.split(",")]
        except ValueError:
            colon = ""
        if not colon:
            raise Error(f"expected a shape as x:1,3,224,224, found '{text}'")
        found.setdefault(name, []).append(shape)
    return found


def _types(texts: list[str]) -> dict[str, str]:
    """Element types by name; those of all have none."""
    parts = [text.rpartition("=") for text in texts]
    return {name: kind for name, _, kind in parts}


def _sizes(texts: list[str]) -> dict[str, int]:
    found = {}
    for text in texts:
        name, _, size = text.partition("=")
        if not size.isdecimal():
            raise Error(f"expected a size as T=128, found '{text}'")
        found[name] = int(size)
    return found


def _pair(text: str) -> tuple[str, str]:
    name, equals, result = text.partition("=")
    if not equals:
        raise Error(f"expected a state as input=result, found '{text}'")
    return name, result


def _export(options) -> int:
    import sardonyx

    _require_jax()
    is_package = options.output.endswith((".mlpackage", ".mlmodel"))
    if not is_package:
        _sardonyx.require_output_name(options.output)  # before the work
        if any(getattr(options, name) for name in _OF_PACKAGES):
            names = [f"--{name.replace('_', '-')}" for name in _OF_PACKAGES]
            raise Error(
                f"{', '.join(names[:-1])} and {names[-1]} are for Core ML packages",
                notes=["help: -o NAME.mlpackage writes one"],
            )

    for library in options.plugin + options.more_plugins:
        sardonyx.load_plugin(library)
    fn = find_function(options.function, bool(options.input))
    name = options.name or options.function.partition(":")[2].removesuffix("()").split(".")[-1]
    try:
        if is_package:
            return _export_package(options, fn, name)
        sardonyx.to_onnx(
            fn,
            _inputs_of(options.input),
            model_name=name,
            opset=options.opset,
            functions=options.functions,
            target=options.target,
            enable_double_precision=options.double,
            return_mode="file",
            output_path=options.output,
            inputs_as_nchw=_positions(options.inputs_as_nchw),
            outputs_as_nchw=_positions(options.outputs_as_nchw),
            input_names=_names(options.input_names),
            output_names=_names(options.output_names),
            export_mode="web" if options.web else "standard",
            passes=options.passes.split(",") if "," in options.passes else options.passes,
            check=options.check,
            strict=options.strict,
            provenance=options.provenance,
            trace=options.trace,
        )
    except Error as e:
        raise _with_advice(e, options.function, fn) from e.__cause__
    report = sardonyx.report.last()
    agreement = _agreement(options, fn) if options.check else None
    if options.json:
        _print_json(
            _head("export", options.function, True)
            | {
                "output": report.path,
                "model": report.model_name,
                "nodes": report.nodes,
                "bytes": report.bytes,
                "ops": report.ops,
                "seconds": report.stages,
            }
            | ({"check": agreement} if agreement else {})
        )
    elif not options.quiet:
        print(report.table)
        if agreement:
            print(f"  compared with JAX: {agreement}")
    return 0


def _agreement(options, fn) -> str:
    """By how much the model that was written agrees with JAX. An Error where it does not, which for ONNX `check=` raises."""
    import sardonyx

    same, text = sardonyx.allclose(
        fn,
        options.output,
        _inputs_of(options.input),
        enable_double_precision=options.double,
        inputs_as_nchw=_positions(options.inputs_as_nchw),
        outputs_as_nchw=_positions(options.outputs_as_nchw),
    )
    if not same:
        raise Error(f"the model in '{options.output}' differs from JAX: {text}", "internal")
    return text


def _explain(options) -> int:
    import sardonyx

    _require_jax()
    for library in options.plugin + options.more_plugins:
        sardonyx.load_plugin(library)
    fn = find_function(options.function, bool(options.input))
    try:
        found = sardonyx.explain(
            fn,
            _inputs_of(options.input),
            enable_double_precision=options.double,
            opset=options.opset,
            target=options.target,
        )
    except Error as e:
        raise _with_advice(e, options.function, fn) from e.__cause__
    if options.json:
        _print_json(
            _head("explain", options.function, not found.refused)
            | {
                "name": found.name,
                "primitives": {k: vars(v) for k, v in found.primitives.items()},
                "refused": found.refused,
            }
        )
    else:
        print(found)
    return 1 if found.refused else 0


def _profile(options) -> int:
    from sardonyx._profile import Profile, profile

    def one(model: str) -> Profile:
        return profile(
            model,
            _arrays(options.inputs),
            input_shapes=options.input_shape,
            runs=options.runs,
            threads=options.threads,
            providers=options.provider or ["CPUExecutionProvider"],
        )

    if options.output and not options.output.endswith((".html", ".htm")):
        raise Error(
            f"'{options.output}' is not the name of a page",
            "invalid_argument",
            notes=[f"help: name the output '{options.output}.html'"],
        )
    found = one(options.function)
    against = one(options.against) if options.against else None
    if options.output:
        Path(options.output).parent.mkdir(parents=True, exist_ok=True)
        found.page(against).save(options.output)
    if options.json:
        both = [(options.function, found)] + ([(options.against, against)] if against else [])
        _print_json(
            *(
                _head("profile", name, True)
                | {
                    "seconds": p.seconds,
                    "runs": p.runs,
                    "shapes": p.shapes,
                    "onnxruntime": p.onnxruntime,
                    "nodes": [vars(n) for n in p.nodes],
                    "output": options.output,
                }
                for name, p in both
            )
        )
    else:
        print(found.table(options.by, options.most, against))
    return 0


def _arrays(path: str | None) -> dict[str, Any]:
    import numpy as np

    if path is None:
        return {}
    try:
        with np.load(path) as arrays:
            return dict(arrays)
    except (OSError, ValueError) as e:
        raise Error(f"cannot read '{path}': {e}", notes=["expected an .npz file with arrays by name"]) from None


def _show_warning(message, category, filename, lineno, file=None, line=None) -> None:
    """A warning as the native commands print it: the line that it is from is none of the user's."""
    print(f"warning: {message}", file=sys.stderr)


def _native(arguments) -> int:
    """Replaces this process by the native command: the one beside the interpreter, else the first on PATH."""
    beside = Path(sys.executable).with_name("sardonyx.exe" if os.name == "nt" else "sardonyx")
    command = str(beside) if os.access(beside, os.X_OK) else shutil.which("sardonyx")
    if command is None:
        help = (
            "help: `pip install` puts it beside the interpreter; "
            "`export`, `explain`, `profile` and `lint-plugin` work without it"
        )
        print(f"error: there is no command 'sardonyx' beside {sys.executable} or on PATH\n{help}", file=sys.stderr)
        return 1
    if os.name == "nt":  # execv there returns to the shell before the command has run
        return subprocess.run([command, *arguments], check=False).returncode
    os.execv(command, [command, *arguments])


def main(arguments=None) -> int:
    try:
        status = _main(arguments)
        sys.stdout.flush()
    except OSError as e:
        if e.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python writes what is left once more when it ends
        print(f"error: cannot write to standard output: {e.strerror}", file=sys.stderr)
        return 1
    return status


def _main(arguments) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["lint-plugin"]:  # parses its own options
        from sardonyx import lint

        return lint.main(arguments[1:])
    if not {"export", "explain", "profile", "--plugin"} & set(arguments[:1]):
        return _native(arguments)
    options = _parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            return {"explain": _explain, "export": _export, "profile": _profile}[options.command](options)
    except Error as e:
        if options.verbose:
            traceback.print_exc()
        if options.json:
            error = {"code": e.code, "message": e.message, "notes": list(e.notes)}
            _print_json(_head(options.command, options.function, False) | {"error": error})
        print(f"error: {e}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
