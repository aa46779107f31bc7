"""Make seeds and dictionaries for the libFuzzer targets from the models of the tests.

    scripts/checks/fuzz_seeds.py FOLDER     writes FOLDER/TARGET and FOLDER/TARGET.dict

tests/bytes/targets.h describes how several files are packed into one input.
"""

import collections
import re
import struct
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LARGEST = 16_000


def cases():
    """The graphs of the .sx cases, before and after: (path, text)."""
    for path in sorted(ROOT.glob("src/**/*.sx")):
        for block in re.split(r'^case ".*$', path.read_text(), flags=re.MULTILINE)[1:]:
            for part in re.split(r"^=>.*$", block, flags=re.MULTILINE):
                if "graph" in part:
                    yield path, part.strip() + "\n"


def onnx_models():
    from onnx.backend.test.loader import load_model_tests

    seen = collections.Counter()
    for test in load_model_tests(kind="node"):
        if test.model is not None:
            data = test.model.SerializeToString()
        elif test.model_dir and (Path(test.model_dir) / "model.onnx").exists():
            data = (Path(test.model_dir) / "model.onnx").read_bytes()
        else:
            continue
        key = re.sub(r"_.*", "", test.name.removeprefix("test_"))
        seen[key] += 1
        if len(data) < LARGEST and seen[key] <= 4:
            yield test.name, data


def coreml_models():
    sys.path.insert(0, str(ROOT / "tests" / "python" / "support"))
    import mil_programs

    with tempfile.TemporaryDirectory() as scratch:
        done = set()
        for number, case in enumerate(mil_programs.CASES):
            if case.op in done:
                continue
            done.add(case.op)
            target = mil_programs.targets_of(case)[-1]
            package = Path(scratch) / f"{number}.mlpackage"
            try:
                mil_programs.save(mil_programs.build(case, target), package, target)
            except Exception as error:  # skip ops that this coremltools cannot save
                print(f"no seed of {case.op}: {error}", file=sys.stderr)
                continue
            message = next(package.rglob("*.mlmodel")).read_bytes()
            weights = next(iter(package.rglob("weight.bin")), None)
            data = struct.pack("<I", len(message)) + message + (weights.read_bytes() if weights else b"")
            if len(data) < LARGEST:
                yield case.op, data


def programs():
    for number, (_, text) in enumerate(c for c in cases() if "graph jax" in c[1]):
        yield f"case_{number}", struct.pack("<I", len(text.encode())) + text.encode()
    import jax.numpy as jnp
    import numpy as np
    import sardonyx

    weight = np.arange(77, dtype=np.float32).reshape(7, 11)
    table = (np.arange(123) % 251).astype(np.uint8).reshape(3, 41)
    with tempfile.TemporaryDirectory() as scratch:
        for name, function in {
            "matmul": lambda x: x @ weight,
            "two": lambda x: (jnp.tanh(x @ weight), jnp.asarray(table)),
        }.items():
            path = Path(scratch) / f"{name}.sx"
            sardonyx.save_program(function, [("B", 7)], path)
            text = path.read_bytes()
            yield name, struct.pack("<I", len(text)) + text + path.with_suffix(".sxw").read_bytes()


def stablehlo_modules():
    """Small programs: (name, text of MLIR, portable artifact, what jax.export saves)."""
    import jax
    import jax.numpy as jnp
    from jax import export, lax

    x, s = jax.ShapeDtypeStruct((3, 5), jnp.float32), export.symbolic_shape("b, 5")
    for name, function, argument in [
        ("matmul", lambda x: x @ jnp.arange(35, dtype=jnp.float32).reshape(5, 7), x),
        ("loop", lambda x: lax.while_loop(lambda c: c[0] < 7, lambda c: (c[0] + 1, c[1] * 2), (0, x)), x),
        ("branches", lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), x),
        ("sort", lambda x: (jnp.sort(x), lax.top_k(x, 2), x.at[1].add(x[0])), x),
        ("window", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3), (1, 2), "SAME"), x),
        ("conv", lambda x: lax.conv(x[None, None], jnp.ones((1, 1, 2, 3)), (1, 2), "VALID"), x),
        ("sizes", lambda x: (x.sum(0), x.reshape(-1), jnp.arange(x.shape[0])), jax.ShapeDtypeStruct(s, jnp.float32)),
        ("types", lambda x: (x.astype("int4"), x > jnp.array([True]), x.astype("bfloat16"), x * 1j), x),
    ]:
        exported = export.export(jax.jit(function))(argument)
        yield name, exported.mlir_module().encode(), exported.mlir_module_serialized, bytes(exported.serialize())


def write(folder: Path, seeds) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for name, data in seeds:
        (folder / re.sub(r"\W", "_", str(name))).write_bytes(data)
        count += 1
    print(f"{folder}: {count} seeds")


def words_of(*files: str) -> set[str]:
    found = set()
    for file in files:
        found |= set(re.findall(r'"([A-Za-z_][A-Za-z0-9_]{2,30})"', (ROOT / file).read_text()))
        found |= set(re.findall(r"SX_FAMILY\([^,]*, (\w+)", (ROOT / file).read_text()))
    return found


def dictionary(path: Path, words) -> None:
    path.write_text("".join(f'"{w}"\n' for w in sorted(words)))


def main() -> None:
    out = Path(sys.argv[1])
    write(out / "text", ((f"{p.stem}_{k}", t.encode()) for k, (p, t) in enumerate(cases())))
    write(out / "program", programs())
    write(out / "onnx", onnx_models())
    write(out / "coreml", coreml_models())
    modules = list(stablehlo_modules())
    write(out / "mlir_text", ((name, text) for name, text, _, _ in modules))
    artifacts = ((f"{name}_{k}", data) for name, _, *binary in modules for k, data in enumerate(binary))
    write(out / "mlir_bytecode", ((name, data) for name, data in artifacts if len(data) < LARGEST))
    onnx = words_of("src/dialects/onnx/generated/ops_families.gen.inc", "src/dialects/onnx/generated/ops_attrs.gen.inc")
    mil = words_of("src/dialects/mil/generated/ops_families.gen.inc", "src/dialects/mil/generated/ops_slots.gen.inc")
    jax = set(
        re.findall(
            r"^lower (\w+)", "\n".join(p.read_text() for p in ROOT.glob("src/lower/jax_to_onnx/**/*.sx")), re.MULTILINE
        )
    )
    marks = {
        "graph",
        "return",
        "function",
        "opset",
        "=>",
        "{#",
        "...}",
        "f32[",
        "i64[2]{",
        "bool true",
        "opaque(",
        "dims[",
    }
    dictionary(out / "onnx.dict", onnx)
    dictionary(out / "coreml.dict", mil | {"@model_path/weights/weight.bin"})
    dictionary(out / "text.dict", onnx | marks)
    dictionary(out / "program.dict", jax | marks)
    operations = set(
        re.findall(r'^OPERATION\("([\w.]+)"', (ROOT / "src/io/mlir/operations.def").read_text(), re.MULTILINE)
    )
    syntax = {
        "tensor<",
        "dense<",
        "loc(",
        "array<i64: ",
        "^bb0(",
        "#stablehlo.",
        "func.func @",
        "%0:2 = ",
        "stablehlo.return",
    }
    dictionary(out / "mlir_text.dict", operations | syntax)
    dictionary(out / "mlir_bytecode.dict", {word.partition(".")[2] + "_v1" for word in operations})


if __name__ == "__main__":
    main()
