"""Judges StableHLO's own test modules: each is converted to ONNX and runs in onnxruntime at its default level and in
Sardonyx's evaluator.

A static module calls @inputs, a function and @expected, and compares: what it compares with is what the model must
return. A dynamic module has only the function; XLA's CPU compiler runs it on random inputs, all open sizes being 5.

A file of the interpreter's tests holds several modules, each with a function that compares what it computes.
"""

import re
from pathlib import Path

import jax
import ml_dtypes
import numpy as np
import sardonyx
from judge import compare, in_onnxruntime

OPEN_SIZE = 5
ALMOST = 1e-4  # of check.expect_almost_eq, as StableHLO defines it
_TYPES = {
    "i1": np.bool_,
    "bf16": ml_dtypes.bfloat16,
    "complex<f32>": np.complex64,
    "complex<f64>": np.complex128,
}
_TYPES |= {f"f{n}": np.dtype(f"f{n // 8}") for n in (16, 32, 64)}
_TYPES |= {f"{u}i{n}": np.dtype(f"{u or 'i'}{n // 8}") for u in ("u", "") for n in (8, 16, 32, 64)}


def parts(path: Path) -> int:
    """How many modules are in a file."""
    return path.read_text().count("// -----\n") + 1 if path.parent.name == "interpret" else 1


def judged(path: Path, part: int) -> str:
    """ "" if the model computes what the module does; else who refuses it, or what differs."""
    text = path.read_text()
    try:
        kind = path.parent.name
        if kind == "interpret":
            return _judged_checks(text.split("// -----\n")[part])
        return _judged_dynamic(text) if kind == "dynamic" else _judged_static(text)
    except sardonyx.Error as e:
        return "refused: " + " ".join([e.message, *e.notes])


def _judged_static(text: str) -> str:
    functions = _functions(text)
    if "main" not in functions or ("@expected()" not in text):
        sardonyx.convert(text.encode(), to="onnx")
        return "not judged: the module expects nothing"
    module, constants, tests = _apart(functions)
    given = list(sardonyx.evaluate(sardonyx.convert(constants.encode(), to="onnx"), []).values())
    arguments, expected = given[: -len(tests)], given[-len(tests) :]
    almost = any("almost" in t for t in tests)
    return _compared(module, arguments, expected, ALMOST if almost else None)


def _judged_dynamic(text: str) -> str:
    model = sardonyx.convert(text.encode(), to="onnx")
    try:
        arguments, expected = _run_by_xla(text)
    except Exception as e:
        return f"not judged: XLA refuses: {_told(e)}"
    return _compared(model, arguments, expected, None)


def _judged_checks(text: str) -> str:
    """Of a module that checks its own results: what it checks is returned, and so is what it expects."""
    found, expected = [], []

    def returned(m: re.Match) -> str:
        how, value, other, type_text = m["how"], m["value"], m["other"].strip(), m["type"].strip()
        found.append((value, type_text))
        name = other if other.startswith("%") else f"%expected{len(expected)}"
        expected.append((name, type_text))
        almost.append("almost" in how or "close" in how)
        return "" if other.startswith("%") else f"{name} = stablehlo.constant {other} : {type_text}"

    almost: list[bool] = []
    check = r"check\.(?P<how>expect_\w+) (?P<value>%[\w#]+), (?P<other>%[\w#]+|dense<.*?>)(?:, [^:\n]*)? : (?P<type>tensor<[^,\n]*>)[^\n]*"
    body = re.sub(check, returned, text, flags=re.DOTALL)
    if not found or "check." in body or text.count("func.func") != 1:
        sardonyx.convert(text.encode(), to="onnx")
        return "not judged: the module has no check of one function's results"
    results = [*found, *expected]
    body = re.sub(r"func\.func @([^(]*)\(\)", r"func.func @\1() -> (" + ", ".join(t for _, t in results) + ")", body)
    last = f"return {', '.join(v for v, _ in results)} : {', '.join(t for _, t in results)}"
    body = re.sub(r"\n\s*(func\.)?return\s*\n", "\n" + last + "\n", body)
    model = sardonyx.convert(body.encode(), to="onnx", passes="none")
    for name, run in (("onnxruntime", _in_onnxruntime), ("the evaluator", _in_evaluator)):
        try:
            values = run(model, [])
        except Exception as e:
            if name == "onnxruntime" and re.search("NOT_IMPLEMENTED|Type Error: Type|Numpy type", str(e)):
                continue  # it has no such elements: of 2 bits, or 8 bits without a sign
            return f"{name} refuses: {_told(e)}"
        try:
            compare(values[len(found) :], values[: len(found)], ALMOST if any(almost) else None)
        except AssertionError as e:
            return f"differs in {name}: {e}"
    return ""


def _compared(module, arguments, expected, tolerance) -> str:
    model = sardonyx.convert(module.encode(), to="onnx") if isinstance(module, str) else module
    for name, run in (("onnxruntime", _in_onnxruntime), ("the evaluator", _in_evaluator)):
        try:
            found = run(model, arguments)
        except Exception as e:
            return f"{name} refuses: {_told(e)}"
        try:
            compare(expected, found, tolerance)
        except AssertionError as e:
            return f"differs in {name}: {e}"
    return ""


def _in_onnxruntime(model, arguments):
    return in_onnxruntime(model, arguments, optimize=True)


def _in_evaluator(model, arguments):
    pairs = [np.stack([x.real, x.imag], -1) if x.dtype.kind == "c" else x for x in arguments]
    return list(sardonyx.evaluate(model, pairs).values())


def _told(e: Exception) -> str:
    return f"{type(e).__name__}: {(str(e).strip() or '-').splitlines()[0]}"[:200]


# --- static modules


def _functions(text: str) -> dict[str, list[str]]:
    """The lines of each function, by name. Modules are as MLIR prints them: indented by two."""
    found, lines = {}, text.splitlines()
    at = 0
    while at < len(lines):
        m = re.match(r'  func\.func (?:public |private )?@"?([\w.$<>-]+)"?\(', lines[at])
        if m:
            end = lines.index("  }", at)
            found[m[1]] = lines[at : end + 1]
            at = end
        at += 1
    return found


def _types_in(text: str) -> list[str]:
    """The parts of "(a, b)" or "a", without attributes in braces."""
    text = text.strip()
    text = text[1:-1] if text.startswith("(") else text
    parts, depth, part = [], 0, ""
    for c in text:
        depth += (c in "<({[") - (c in ">)}]")
        if c == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += c
    return [p.split(" {")[0].strip() for p in [*parts, part] if p.strip()]


def _apart(functions: dict[str, list[str]]) -> tuple[str, str, list[str]]:
    """The module as a function of its inputs, a module that returns inputs and expected values, and the names of the
    checks."""
    inputs, body, results, tests = [], [], [], []
    name, count = "", 0
    for line in functions["main"][1:-1]:
        call = re.match(r"\s*(%\w+)(?::\d+)? = call @(inputs|expected)\(\) : \(\) -> (.*)$", line)
        check = re.match(r"\s*stablehlo\.custom_call @check\.(\w+)\((%[\w#]+), %[\w#]+\).* : \((.*)\) -> ", line)
        if call and call[2] == "inputs":
            name, inputs = call[1], _types_in(call[3])
            count = len(inputs)
        elif check:
            tests.append(check[1])
            results.append((check[2], _types_in(f"({check[3]})")[0]))
        elif not call and not re.match(r"\s*return\b", line):
            body.append(line)

    def renamed(text: str) -> str:
        if not name:
            return text
        text = re.sub(re.escape(name) + r"#(\d+)", r"%in\1", text)
        return re.sub(re.escape(name) + r"(?![\w#])", "%in0", text) if count == 1 else text

    signature = ", ".join(f"%in{i}: {t}" for i, t in enumerate(inputs))
    others = [line for f, lines in functions.items() if f not in ("main", "inputs", "expected") for line in lines]
    values = [(renamed(v), t) for v, t in results]
    module = _module(signature, [renamed(line) for line in body], values, others)
    calls, given = [], []
    for f in ("inputs", "expected"):
        if f in functions:
            types = _types_in(re.search(r"-> (.*) \{$", functions[f][0])[1])
            calls.append(f"%{f}:{len(types)} = call @{f}() : () -> ({', '.join(types)})")
            given += [(f"%{f}#{i}", t) for i, t in enumerate(types)]
    own = [line for f in ("inputs", "expected") for line in functions.get(f, ())]
    return module, _module("", calls, given, own), tests


def _module(signature: str, body: list[str], results: list[tuple[str, str]], others: list[str]) -> str:
    types = ", ".join(t for _, t in results)
    lines = ["module {", f"func.func public @main({signature}) -> ({types}) {{", *body]
    lines += [f"return {', '.join(v for v, _ in results)} : {types}", "}", *others, "}"]
    return "\n".join(lines)


# --- dynamic modules


def _run_by_xla(text: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Random arguments, and the results. Integer scalars are sizes."""
    import jaxlib.xla_client as xla
    from jax._src import compiler, xla_bridge
    from jax._src.interpreters import mlir
    from jax._src.lib import _jax
    from jax._src.lib.mlir import ir

    jax.config.update("jax_enable_x64", True)
    head = re.search(r"func\.func public @main\((.*?)\) -> (.*?) \{\n", text, re.S)
    types = re.findall(r"%\w+: tensor<((?:complex<\w+>|[^<>])*)>", head[1])
    results = _types_in(head[2])
    rng = np.random.default_rng(0)
    arguments = [_random(rng, t) for t in types]
    body, names = [], []
    for i, (t, v) in enumerate(zip(types, arguments, strict=True)):
        names.append(f"%c{i}")
        if t in ("i32", "i64"):
            body.append(f"%c{i} = stablehlo.constant dense<{int(v)}> : tensor<{t}>")
        else:
            body.append(f"%c{i} = stablehlo.convert %p{i} : (tensor<{_static(t)}>) -> tensor<{t}>")
    operands = ", ".join(f"tensor<{t}>" for t in types)
    body.append(f"%r:{len(results)} = call @orig({', '.join(names)}) : ({operands}) -> ({', '.join(results)})")
    signature = ", ".join(f"%p{i}: tensor<{_static(t)}>" for i, t in enumerate(types))
    main = _module(signature, body, [(f"%r#{i}", t) for i, t in enumerate(results)], [])
    rest = text.replace("func.func public @main(", "func.func private @orig(", 1)
    whole = main.rsplit("}", 1)[0] + rest.split("{\n", 1)[1]
    backend = xla_bridge.get_backend("cpu")
    with mlir.make_ir_context():
        module = mlir.module_to_bytecode(ir.Module.parse(whole))
        refined = _jax.mlir.refine_polymorphic_shapes(
            module, enable_shape_assertions=False, validate_static_shapes=True, enable_shardy=False
        )
        devices = xla.DeviceList(tuple(backend.devices()[:1]))
        options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
        program = backend.compile_and_load(ir.Module.parse(refined), devices, options)
    found = program.execute_sharded([jax.device_put(v) for v in arguments])
    return arguments, [np.asarray(a[0]) for a in found.disassemble_into_single_device_arrays()]


def _static(type_text: str) -> str:
    return type_text.replace("?", str(OPEN_SIZE))


def _random(rng, type_text: str) -> np.ndarray:
    dims, element = re.fullmatch(r"((?:\d+x)*)(.*)", _static(type_text)).groups()
    shape, dtype = [int(d) for d in dims.split("x")[:-1]], np.dtype(_TYPES[element])
    if dtype.kind in "iu":
        return np.asarray(rng.integers(0, 4, shape) if shape else OPEN_SIZE, dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind == "c":
        return (rng.uniform(-2, 2, shape) + 1j * rng.uniform(-2, 2, shape)).astype(dtype)
    return rng.uniform(-2, 2, shape).astype(dtype)
