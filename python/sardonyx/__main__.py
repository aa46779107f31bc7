"""`python -m sardonyx export module:function --input f32[B,224,224,3] -o model.onnx`, and the other
commands."""

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from sardonyx._error import Error


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
        help='one per argument, in order: "f32[B,224,224,3]", "x=i32[B,T]", "x:B,3", "key[]"',
    )
    command.add_argument(
        "--plugin",
        action="append",
        default=[],
        dest="more_plugins",
        metavar="LIB.so",
        help="shared object with lowerings (sardonyx/plugin.h); repeatable",
    )
    return command


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sardonyx", description="Export JAX functions as ONNX.")
    parser.add_argument("--plugin", action="append", default=[], metavar="LIB.so", help="as in the commands")
    commands = parser.add_subparsers(dest="command", required=True)
    export = _add_traced(commands, "export", "export a function, given as module:function")
    explain = _add_traced(commands, "explain", "list the primitives of a function, and whether it can be exported")
    explain.add_argument("--double", action="store_true", help="64-bit types")
    explain.add_argument("--json", action="store_true", help="machine-readable output")
    export.add_argument("-o", "--output", required=True, metavar="FILE", help="the .onnx file to write")
    export.add_argument(
        "--opset", type=int, default=None, help="opset of the model (default: 23, or the newest that the target loads)"
    )
    export.add_argument("--target", default=None, help="runtime that must run the model, such as ort-1.17")
    export.add_argument(
        "--functions",
        choices=("decorated", "auto"),
        default="decorated",
        help="auto: repeated parts become functions, too",
    )
    export.add_argument("--name", default=None, help="name of the graph (default: the function's)")
    export.add_argument("--double", action="store_true", help="64-bit types")
    export.add_argument("--passes", default="onnx", help='"onnx", "none", or names separated by commas')
    export.add_argument("--check", action="store_true", help="compare with JAX in onnxruntime")
    export.add_argument("--strict", action="store_true", help="stop when a pass fails")
    export.add_argument("--provenance", choices=("off", "line", "full"), default="line")
    export.add_argument("--input-names", default=None, metavar="A,B", help='names, or "positional"')
    export.add_argument("--output-names", default=None, metavar="A,B", help='names, or "positional"')
    export.add_argument("--inputs-as-nchw", default="", metavar="0,1")
    export.add_argument("--outputs-as-nchw", default="", metavar="0,1")
    export.add_argument("--web", action="store_true", help="write a single file, for the browser")
    export.add_argument("--json", action="store_true", help="print the report as JSON")
    commands.add_parser("lint-plugin", help="check the source of converter plugins", add_help=False)
    return parser


def find_function(text: str):
    """The object that "module:name.name" or "module:name()" names."""
    module_name, colon, path = text.partition(":")
    if not colon or not module_name or not path:
        raise Error(f"'{text}' names no function", notes=['expected module:function, as in "models.resnet:forward"'])
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        value = importlib.import_module(module_name)
    except ModuleNotFoundError as e:
        if e.name and not module_name.startswith(e.name):
            raise
        raise Error(
            f"there is no module '{module_name}'", notes=[f"looked below {os.getcwd()} and in Python's path"]
        ) from None
    make = path.endswith("()")
    for part in path.removesuffix("()").split("."):
        if not hasattr(value, part):
            raise Error(f"'{module_name}' has no '{part}'") from None
        value = getattr(value, part)
    return value() if make else value


def _names(text):
    return text if text in (None, "positional") else text.split(",")


def _positions(text):
    return [int(p) for p in text.split(",") if p]


def _export(options) -> int:
    import sardonyx

    for library in options.plugin + options.more_plugins:
        sardonyx.load_plugin(library)
    fn = find_function(options.function)
    name = options.name or options.function.partition(":")[2].removesuffix("()").split(".")[-1]
    sardonyx.to_onnx(
        fn,
        options.input,
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
    )
    report = sardonyx.report.last()
    if options.json:
        print(
            json.dumps(
                {
                    "model": report.model_name,
                    "path": report.path,
                    "nodes": report.nodes,
                    "bytes": report.bytes,
                    "ops": report.ops,
                    "seconds": report.stages,
                }
            )
        )
    else:
        print(report.table)
    return 0


def _explain(options) -> int:
    import sardonyx

    for library in options.plugin + options.more_plugins:
        sardonyx.load_plugin(library)
    found = sardonyx.explain(find_function(options.function), options.input, enable_double_precision=options.double)
    if options.json:
        print(json.dumps({"name": found.name, "primitives": {k: vars(v) for k, v in found.primitives.items()}}))
    else:
        print(found)
    return 1 if found.missing else 0


def _native(arguments) -> int:
    """Replaces this process by the native command: the one beside the interpreter, else the first on PATH."""
    beside = Path(sys.executable).with_name("sardonyx.exe" if os.name == "nt" else "sardonyx")
    command = str(beside) if os.access(beside, os.X_OK) else shutil.which("sardonyx")
    if command is None:
        help = (
            "help: `pip install` puts it beside the interpreter; `export`, `explain` and `lint-plugin` work without it"
        )
        print(f"error: there is no command 'sardonyx' beside {sys.executable} or on PATH\n{help}", file=sys.stderr)
        return 1
    if os.name == "nt":  # execv there returns to the shell before the command has run
        return subprocess.run([command, *arguments], check=False).returncode
    os.execv(command, [command, *arguments])


def main(arguments=None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["lint-plugin"]:  # parses its own options
        from sardonyx import lint

        return lint.main(arguments[1:])
    if not {"export", "explain", "--plugin"} & set(arguments[:1]):
        return _native(arguments)
    options = _parser().parse_args(arguments)
    try:
        return _explain(options) if options.command == "explain" else _export(options)
    except Error as e:
        print(f"error: {e}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
