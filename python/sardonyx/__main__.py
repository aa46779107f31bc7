"""`python -m sardonyx`, which runs the native command, and the parts of commands that the native command runs in Python: it parses
their options, and hands them over as JSON."""

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
from types import SimpleNamespace
from typing import Any

from sardonyx import _sardonyx, _source
from sardonyx._error import Error

SCHEMA = 1  # of --json: docs/reference/command_line.md


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
    return [int(p) for p in (text or "").split(",") if p]


def _head(command: str, name: str, ok: bool) -> dict[str, Any]:
    return {"schema": SCHEMA, "command": command, "input": name, "ok": ok}


def _print_json(*objects) -> None:
    print(json.dumps(list(objects), indent=2))


def _convert_to_coreml(options, fn, name: str) -> dict[str, Any]:
    """Writes a Core ML package. Returns its part of --json."""
    import sardonyx

    program = sardonyx.to_coreml(
        fn,
        _inputs_of(options.input),
        model_name=name,
        output_path=options.output,
        inputs_as_nchw=_positions(options.inputs_as_nchw),
        outputs_as_nchw=_positions(options.outputs_as_nchw),
        input_names=_names(options.inputs),
        output_names=_names(options.outputs),
        trace=options.trace,
        **options.keywords,
    )
    ops = program.op_counts()
    if not (options.json or options.quiet):
        count = sum(n for op, n in ops.items() if op != "const")
        print(f"{options.models[0]} -> {options.output}: {count} ops")
    return {"output": options.output, "model": name, "ops": ops}


def _convert(options) -> int:
    import sardonyx

    _require_jax()
    if len(options.models) > 1:
        raise Error("functions are converted one by one, and several are given")
    (function,) = options.models
    is_package = options.output.endswith((".mlpackage", ".mlmodel"))
    if not is_package:
        _sardonyx.require_output_name(options.output)  # before the work
    for library in options.plugin:
        sardonyx.plugins.load(library)
    fn = find_function(function, bool(options.input))
    name = options.name or function.partition(":")[2].removesuffix("()").split(".")[-1]
    try:
        if is_package:
            result = _convert_to_coreml(options, fn, name)
        elif options.output.endswith(".sx"):
            result = _save_program(options, fn, name)
        else:
            result = _convert_to_onnx(options, fn, name)
    except Error as e:
        raise _with_advice(e, function, fn) from e.__cause__
    if options.verify not in (None, "off"):
        result["check"] = _compared(options, fn, options.output)
    if options.json:
        _print_json(_head("convert", function, True) | result)
    elif "check" in result and not options.quiet:
        print(f"  compared with JAX: {result['check']}")
    return 0


def _traced_as(options) -> dict[str, Any]:
    """The keywords that say how a function is traced."""
    if options.precision == "int8":
        raise Error("--precision int8 is for models", notes=["help: sardonyx optimize model.onnx --precision int8"])
    return {
        "enable_double_precision": options.precision == "f64",
        "inputs_as_nchw": _positions(options.inputs_as_nchw),
        "outputs_as_nchw": _positions(options.outputs_as_nchw),
        "input_names": _names(options.inputs),
        "output_names": _names(options.outputs),
        "provenance": options.provenance or "line",
    }


def _save_program(options, fn, name: str) -> dict[str, Any]:
    import sardonyx

    if options.precision == "f16":
        raise Error(
            "a program keeps the precision of the function", notes=["help: --precision f16 when it is converted"]
        )
    sardonyx.save_program(fn, _inputs_of(options.input), options.output, model_name=name, **_traced_as(options))
    if not (options.json or options.quiet):
        print(f"{options.models[0]} -> {options.output}")
    return {"output": options.output, "model": name}


def _convert_to_onnx(options, fn, name: str) -> dict[str, Any]:
    from sardonyx.compat.jax2onnx import to_onnx  # it has export_mode

    passes = options.passes or "onnx"
    _, report = to_onnx(
        fn,
        _inputs_of(options.input),
        model_name=name,
        opset=options.opset,
        functions="auto" if options.functions == "outline" else "decorated",
        target=None if options.target == "web" else options.target,
        return_mode="file",
        output_path=options.output,
        export_mode="web" if options.target == "web" else "standard",
        passes=passes.split(",") if "," in passes else passes,
        precision="f16" if options.precision == "f16" else None,
        check=options.verify not in (None, "off"),
        strict=options.strict,
        trace=options.trace,
        return_report=True,
        **_traced_as(options),
    )
    if not (options.json or options.quiet):
        print(report.table)
    return {
        "output": report.path,
        "model": report.model_name,
        "nodes": report.nodes,
        "bytes": report.bytes,
        "ops": report.ops,
        "seconds": report.stages,
    }


def _compared(options, fn, model: str) -> str:
    """By how much the model agrees with JAX. An Error where it does not."""
    same, text = _agreement(options, fn, model)
    if not same:
        raise Error(f"the model in '{model}' differs from JAX: {text}", "internal")
    return text


def _agreement(options, fn, model: str) -> tuple[bool, str]:
    import sardonyx

    same, text = sardonyx.compare(
        fn,
        model,
        _inputs_of(options.input),
        rtol=getattr(options, "rtol", None),
        atol=getattr(options, "atol", None),
        enable_double_precision=options.precision == "f64",
        inputs_as_nchw=_positions(options.inputs_as_nchw),
        outputs_as_nchw=_positions(options.outputs_as_nchw),
    )
    return same, text


def _compare(options) -> int:
    """A function, before or after the model that it is compared with."""
    import sardonyx

    _require_jax()
    function, model = options.before, options.after
    if model.endswith(".py") or ":" in model:
        function, model = model, function
    for library in options.plugin:
        sardonyx.plugins.load(library)
    fn = find_function(function, bool(options.input))
    same, text = _agreement(options, fn, model)
    if options.json:
        _print_json(
            _head("compare", options.before, same)
            | {"after": options.after, "difference": None if same else text, "check": text if same else None}
        )
    else:
        print(text if same else f"the model differs from JAX: {text}")
    return 0 if same else 1


def _info(options) -> int:
    import sardonyx

    _require_jax()
    for library in options.plugin:
        sardonyx.plugins.load(library)
    fn = find_function(options.model, bool(options.input))
    try:
        found = sardonyx.explain(
            fn,
            _inputs_of(options.input),
            enable_double_precision=options.precision == "f64",
            opset=options.opset,
            target=options.target,
        )
    except Error as e:
        raise _with_advice(e, options.model, fn) from e.__cause__
    if options.json:
        _print_json(
            _head("info", options.model, not found.refused)
            | {
                "name": found.name,
                "primitives": {k: vars(v) for k, v in found.primitives.items()},
                "refused": found.refused,
            }
        )
    else:
        print(found)
    return 1 if found.refused else 0


def _input_shape(text: str) -> tuple[str, list[int]]:
    """The input and its sizes in "x:1,3,224,224"."""
    name, colon, sizes = text.rpartition(":")
    try:
        if colon and name:
            return name, [int(size) for size in sizes.split(",") if size.strip()]
    except ValueError:
        pass
    raise Error(f"input shape '{text}'", "invalid_argument", notes=['expected NAME:SIZES, as "x:1,3,224,224"'])


def _profile(options) -> int:
    from sardonyx._models.profile import Profile, profile

    def one(model: str) -> Profile:
        return profile(
            model,
            _arrays(options.input),
            input_shapes=dict(map(_input_shape, options.input_shape)),
            runs=options.runs,
            threads=options.threads or 0,
            providers=options.provider or ["CPUExecutionProvider"],
        )

    if options.output and not options.output.endswith((".html", ".htm")):
        raise Error(
            f"'{options.output}' is not the name of a page",
            "invalid_argument",
            notes=[f"help: name the output '{options.output}.html'"],
        )
    found = one(options.model)
    against = one(options.against) if options.against else None
    if options.output:
        Path(options.output).parent.mkdir(parents=True, exist_ok=True)
        found.page(against).save(options.output)
    if options.json:
        both = [(options.model, found)] + ([(options.against, against)] if against else [])
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
        print(found.table(options.by or "node", 20 if options.most is None else options.most, against))
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


def _command() -> str | None:
    """The native command: the one beside the interpreter, else of this build or beside the package, else the first on PATH."""
    name = "sardonyx.exe" if os.name == "nt" else "sardonyx"
    package = Path(_sardonyx.__file__).parent
    for path in (Path(sys.executable).with_name(name), package.parents[1] / name, package.parent / "bin" / name):
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    return shutil.which("sardonyx")


def main(arguments=None) -> int:
    """Replaces this process by the native command, which runs this interpreter where it needs Python."""
    arguments = sys.argv[1:] if arguments is None else arguments
    command = _command()
    if command is None:
        print(
            f"error: there is no command 'sardonyx' beside {sys.executable} or on PATH\n"
            "  help: `pip install` puts it beside the interpreter",
            file=sys.stderr,
        )
        return 1
    os.environ["SARDONYX_PYTHON"] = sys.executable
    if os.name == "nt":  # execv there returns to the shell before the command has run
        return subprocess.run([command, *arguments], check=False).returncode
    os.execv(command, [command, *arguments])


def run_command(command: str, options_json: str) -> int:
    """Runs a command whose options the native command has parsed."""
    try:
        status = _run_command(command, SimpleNamespace(**json.loads(options_json)))
        sys.stdout.flush()
    except OSError as e:
        if e.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python writes what is left once more when it ends
        print(f"error: cannot write to standard output: {e.strerror}", file=sys.stderr)
        return 1
    return status


def _run_command(command: str, options) -> int:
    run, about = {
        "convert": (_convert, "models"),
        "compare": (_compare, "before"),
        "info": (_info, "model"),
        "profile": (_profile, "model"),
    }[command]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            return run(options)
    except Error as e:
        if getattr(options, "verbose", False):
            traceback.print_exc()
        if options.json:
            name = getattr(options, about)
            error = {"code": e.code, "message": e.message, "notes": list(e.notes)}
            _print_json(_head(command, name[0] if isinstance(name, list) else name, False) | {"error": error})
        print(f"error: {e}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
