"""Make seeds and dictionaries for the libFuzzer targets from the models of the tests.

    scripts/checks/fuzz_seeds.py FOLDER     writes FOLDER/{onnx,coreml,text,program} and FOLDER/NAME.dict

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


if __name__ == "__main__":
    main()
