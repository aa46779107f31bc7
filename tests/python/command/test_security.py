"""Promises of SECURITY.md that no other test covers; and a check that the tests it names exist."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
import sardonyx
from command import BUILD
from sardonyx import coreml

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """A package with weights in a file."""
    pytest.importorskip("coremltools")
    import mil_programs

    path = tmp_path_factory.mktemp("package") / "x.mlpackage"
    case = next(c for c in mil_programs.CASES if c.op == "conv")
    target = mil_programs.targets_of(case)[-1]
    mil_programs.save(mil_programs.build(case, target), path, target)
    assert list(path.rglob("weight.bin"))
    coreml.load(path)
    return path


def test_links_cannot_lead_out_of_a_package(package, tmp_path):
    copy = shutil.copytree(package, tmp_path / "x.mlpackage")
    (weights,) = copy.rglob("weight.bin")
    shutil.move(weights, tmp_path / "elsewhere")
    weights.symlink_to(tmp_path / "elsewhere")
    for mmap in (True, False):
        with pytest.raises(sardonyx.Error, match="leads out of the model's folder"):
            coreml.load(copy, mmap=mmap)


def test_a_manifest_cannot_lead_out_of_its_package(package, tmp_path):
    copy = shutil.copytree(package, tmp_path / "x.mlpackage")
    manifest = json.loads((copy / "Manifest.json").read_text())
    item = manifest["itemInfoEntries"][manifest["rootModelIdentifier"]]
    shutil.copy(copy / "Data" / item["path"], tmp_path / "model.mlmodel")
    for path in ("../../model.mlmodel", str(tmp_path / "model.mlmodel"), ""):
        item["path"] = path
        (copy / "Manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(sardonyx.Error, match="outside it"):
            coreml.load(copy)


def test_parts_of_a_package_are_files(package, tmp_path):
    """Reading a pipe would block and reading a device would never end; a name that no system accepts is
    refused as well."""
    manifest = json.loads((package / "Manifest.json").read_text())
    model = Path("Data") / manifest["itemInfoEntries"][manifest["rootModelIdentifier"]]["path"]
    for number, part in enumerate((Path("Manifest.json"), model, model.parent / "weights" / "weight.bin")):
        for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
            copy = shutil.copytree(package, tmp_path / f"{number}_{make.__name__}.mlpackage")
            (copy / part).unlink()
            make(copy / part)
            with pytest.raises(sardonyx.Error, match="not a regular file|leads out"):
                coreml.load(copy)
    copy = shutil.copytree(package, tmp_path / "long.mlpackage")
    manifest["itemInfoEntries"][manifest["rootModelIdentifier"]]["path"] = "a/" * 5000
    (copy / "Manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(sardonyx.Error, match="the package has no model at Data/a/a"):
        coreml.load(copy)


def is_raw(told: bytes) -> bool:
    return bool({0x1B, 0x07, 0x00} & set(told)) or "\u202e" in told.decode()


def is_spelt(told: bytes) -> bool:
    return b"\\x" in told and not is_raw(told)


@pytest.mark.parametrize("name", [b"\x1b[2J\x07", b"\xff\xfe", b"\xed\xa0\x80", b"a\x00b", "\u202e".encode()])
def test_names_cannot_steer_a_terminal(name, tmp_path):
    """Names from a model are escaped in messages. The error is ours, whatever the bytes."""
    stand_in = "N" * len(name)
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[2], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=stand_in)
    graph = onnx.GraphProto(name="g", initializer=[tensor])
    model = onnx.ModelProto(ir_version=10, graph=graph, opset_import=[onnx.helper.make_opsetid("", 21)])
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString().replace(stand_in.encode(), name))
    with pytest.raises(sardonyx.Error, match=r"\\x") as error:
        sardonyx.ir.load(path)
    assert str(error.value).replace("\n", "").isprintable()
    run = subprocess.run([BUILD / "sardonyx", "info", path], capture_output=True, check=False)
    assert run.returncode == 1 and is_spelt(run.stderr)
    value = onnx.helper.make_tensor_value_info
    node = onnx.helper.make_node("Relu", [stand_in], ["y"], name=stand_in)
    shape = [stand_in, 3]
    graph = onnx.helper.make_graph([node], "g", [value(stand_in, 1, shape)], [value("y", 1, shape)])
    model = onnx.helper.make_model(graph, producer_name=stand_in, opset_imports=model.opset_import, ir_version=10)
    path.write_bytes(model.SerializeToString().replace(stand_in.encode(), name))
    for command in (["info"], ["check"], ["view"], ["run", "--seed", "0"]):
        run = subprocess.run([BUILD / "sardonyx", command[0], path, *command[1:]], capture_output=True, check=True)
        assert is_spelt(run.stdout) or command[0] in ("check", "run"), command
        assert not is_raw(run.stdout + run.stderr), command


def imports(path: Path) -> set[str]:
    listed = subprocess.run(["nm", "-D", "--undefined-only", path], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in listed.splitlines() if line.split()}


def test_models_open_no_shared_objects(tmp_path):
    """Only --plugin (command) and plugins.load() (module) load code, whatever a model contains."""
    module = Path(sardonyx._sardonyx.__file__)
    if shutil.which("nm") is not None:
        found = imports(module)
        assert "malloc" in found or "_Znwm" in found  # the list is not empty
        assert not found & {"dlmopen", "system", "popen"}
        assert not {n for n in found if n.startswith(("exec", "posix_spawn", "fork"))}
        assert not imports(BUILD / "sardonyx") & {"dlmopen", "system", "popen"}
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3])
    node = onnx.helper.make_node("Mine", ["x"], ["y"], domain="my.ops")
    imported = [onnx.helper.make_opsetid("my.ops", 1), onnx.helper.make_opsetid("", 21)]
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], [y]), opset_imports=imported)
    library = str(shutil.copy("/lib/x86_64-linux-gnu/libz.so.1", tmp_path / "libmine.so"))
    onnx.helper.set_model_props(model, {"custom_op_library": library, "my.ops": library})
    onnx.save(model, tmp_path / "m.onnx")

    def opened(*arguments) -> int:
        told = subprocess.run(
            [BUILD / "sardonyx", *arguments], capture_output=True, text=True, env={"LD_DEBUG": "files"}, check=False
        )
        assert "calling init" in told.stderr  # the loader prints its steps
        return told.stderr.count("direct_opencount=1")

    out = tmp_path / "out.onnx"
    for arguments in (["check"], ["info"], ["optimize", "-o", out], ["run"]):
        assert opened(arguments[0], tmp_path / "m.onnx", *arguments[1:]) == 0
    program = tmp_path / "p.sx"
    program.write_text("graph jax(x: f32[3]) { y: f32[3] = sin(x)  return y }")
    assert opened("convert", program, "-o", out) == 0
    assert opened("convert", program, "-o", out, "--plugin", library) == 1

    def opened_by_python(code: str) -> bool:
        told = subprocess.run(
            [sys.executable, "-c", f"import sardonyx\n{code}"],
            capture_output=True, text=True, env=os.environ | {"LD_DEBUG": "files"}, check=False,
        )  # fmt: skip
        assert "_sardonyx" in told.stderr
        return library in told.stderr

    use = f"sardonyx.optimize({str(tmp_path / 'm.onnx')!r}, {str(out)!r})"
    assert out.exists() and not opened_by_python(use)
    assert opened_by_python(f"sardonyx.plugins.load({library!r})")


def test_reading_starts_no_program(package):
    """Runs the command with an empty PATH: reading, checking and optimizing need no other program."""
    environment = {"PATH": "/nonexistent", "HOME": "/nonexistent"}
    run = subprocess.run([BUILD / "sardonyx", "info", package], env=environment, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr


def test_every_test_that_the_page_names_exists():
    page = (ROOT / "SECURITY.md").read_text()
    named = re.findall(r"`([A-Z]\w+)\.([A-Z]\w+)`", page)
    assert len(named) > 8
    sources = "\n".join(p.read_text() for p in [*ROOT.glob("src/**/*_test.cc"), *ROOT.glob("tests/bytes/*_test.cc")])
    for suite, name in named:
        assert re.search(rf"TEST(_F|_P)?\({suite}, {name}\)", sources), f"{suite}.{name}"
    for file, name in re.findall(r"`(tests/python/\w+\.py)::(\w+)`", page):
        assert f"def {name}(" in (ROOT / file).read_text(), f"{file}::{name}"
