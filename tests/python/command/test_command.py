"""The command as people use it who read the README and --help."""

import io
import json
import os
import pickle
import re
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import command as built
import encoders
import numpy as np
import onnx
import pytest
import sardonyx
from command import sardonyx as command
from onnx import TensorProto, helper, numpy_helper


def run(*arguments, env=None, stdin=None, cwd=None, text=True):
    program = built.BUILD / "sardonyx"
    program = program if program.exists() else shutil.which("sardonyx")
    environment = {**os.environ, **(env or {})}
    return subprocess.run(
        [program, *map(str, arguments)],
        capture_output=True,
        text=text,
        env=environment,
        input=stdin,
        cwd=cwd,
        check=False,
    )


def gelu(opset=17):
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", 13]) for name in "xy"]
    nodes = [
        helper.make_node("Div", ["x", "root"], ["scaled"]),
        helper.make_node("Erf", ["scaled"], ["erf"]),
        helper.make_node("Add", ["erf", "one"], ["shifted"]),
        helper.make_node("Mul", ["x", "shifted"], ["twice"]),
        helper.make_node("Mul", ["twice", "half"], ["y"]),
    ]
    constants = {"root": 2**0.5, "one": 1, "half": 0.5}
    weights = [numpy_helper.from_array(np.array(v, np.float32), k) for k, v in constants.items()]
    graph = helper.make_graph(nodes, "gelu", value[:1], value[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "in.onnx"
    onnx.save(gelu(), path)
    return path


@pytest.fixture
def package(tmp_path):
    ct = pytest.importorskip("coremltools")
    import mil_programs as programs

    path = tmp_path / "in.mlpackage"
    programs.save(programs.resnet(), path, ct.target.iOS15)
    return path


# --- 1: the suffix decides


@pytest.mark.parametrize(
    ("verb", "name"),
    [("optimize", "x.mlpackage")] + [(v, n) for v in ("optimize", "convert") for n in ("x.txt", "x", "x.tflite")],
)
def test_an_onnx_model_is_not_written_under_another_suffix(model, tmp_path, name, verb):
    extra = ("--opset", 20) if verb == "convert" else ()
    done = run(verb, model, "-o", tmp_path / "out" / name, *extra)
    assert done.returncode == 2 and "an ONNX model is written to .onnx, .pb or .sx" in done.stderr
    assert "x.onnx" in done.stderr and not (tmp_path / "out").exists()
    with pytest.raises(sardonyx.Error, match="an ONNX model is written to"):
        sardonyx.optimize(str(model), str(tmp_path / name))


def test_convert_makes_states(tmp_path):
    import onnx
    from onnx import TensorProto, helper

    ports = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in ("x", "total", "new_total", "y")}
    nodes = [helper.make_node("Add", ["x", "total"], ["new_total"]), helper.make_node("Neg", ["x"], ["y"])]
    graph = helper.make_graph(nodes, "g", [ports["x"], ports["total"]], [ports["y"], ports["new_total"]])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    path = tmp_path / "m.mlpackage"
    command("convert", tmp_path / "m.onnx", "-o", path, "--target", "iOS18", "--state", "total=new_total")
    from sardonyx import coreml

    program = coreml.load(path)
    assert list(program.make_state()) == ["total"] and program.op_counts()["write_state"] == 1
    done = run("convert", tmp_path / "m.onnx", "-o", path, "--target", "iOS18", "--state", "total")
    assert done.returncode == 2 and "expected a state as input=result, found 'total'" in done.stderr


def test_a_converted_model_is_a_package_by_its_suffix(model, tmp_path):
    done = run("convert", model, "-o", tmp_path / "x.onnx", "--precision", "f16")
    assert done.returncode == 2 and "--precision is not for this conversion" in done.stderr
    assert not (tmp_path / "x.onnx").exists()
    command("convert", model, "-o", tmp_path / "x.onnx")
    assert onnx.load(tmp_path / "x.onnx").graph == onnx.load(model).graph
    done = run("optimize", model, "-o", tmp_path / "x.mlpackage")
    assert done.returncode == 2 and f"sardonyx convert MODEL.onnx -o {tmp_path}/x.mlpackage" in done.stderr
    command("convert", model, "-o", tmp_path / "new" / "x.mlpackage")
    assert json.loads(command("info", tmp_path / "new" / "x.mlpackage", "--json").stdout)[0]["ok"]


def test_an_export_is_a_package_by_its_suffix(tmp_path):
    pytest.importorskip("jax")
    from sardonyx import coreml

    (tmp_path / "net.py").write_text("def add(x, total):\n    return x * 2, total + x\n")
    here = {"cwd": tmp_path, "env": in_this_python()}
    call = ("convert", "net:add", "-i", "f32[3]", "-i", "f32[3]", "-o", "x.mlpackage")
    done = run(*call, "--target", "iOS18", "--precision", "f32", "--state", "total=output.1", **here)
    assert done.returncode == 0, done.stderr
    assert "net:add -> x.mlpackage: " in done.stdout
    assert list(coreml.load(tmp_path / "x.mlpackage").make_state()) == ["total"]
    for more, code, message in (
        (("--opset", "20"), 2, "--opset is for ONNX models"),
        (("--state", "total"), 2, "expected a state as input=result, found 'total'"),
        (("--target", "ort-1.17"), 1, "'ort-1.17' is not a deployment target"),
    ):
        done = run(*call[:-1], "y.mlpackage", *more, **here)
        assert done.returncode == code and message in done.stderr and "Traceback" not in done.stderr
    done = run(*call[:-1], "y.onnx", "--state", "total=output.1", **here)
    assert done.returncode == 2 and "--state is for Core ML packages" in done.stderr
    assert not (tmp_path / "y.mlpackage").exists() and not (tmp_path / "y.onnx").exists()


def test_an_export_is_not_written_under_another_suffix(tmp_path):
    pytest.importorskip("jax")
    with pytest.raises(sardonyx.Error, match="ends in .mlpackage"):
        sardonyx.to_onnx(lambda x: x + x, ["f32[3]"], return_mode="file", output_path=str(tmp_path / "y.mlpackage"))


def test_a_view_is_a_page_or_text_by_its_suffix(model, tmp_path):
    command("view", model, "-o", tmp_path / "v.txt")
    command("view", model, "-o", tmp_path / "v.html")
    assert "Erf(" in (tmp_path / "v.txt").read_text() and "<html" not in (tmp_path / "v.txt").read_text()
    assert "<html" in (tmp_path / "v.html").read_text()
    done = run("view", model, "-o", tmp_path / "v.pdf")
    assert done.returncode == 2 and "a page (.html) or as text" in done.stderr and not (tmp_path / "v.pdf").exists()


def test_results_of_runs_are_arrays_by_their_suffix(model, tmp_path):
    done = run("run", model, "--seed", "0", "-o", tmp_path / "y.csv")
    assert done.returncode == 2 and "neither .npz nor .npy" in done.stderr and not (tmp_path / "y.csv").exists()


def test_optimize_hands_packages_to_the_coreml_pipeline(package, tmp_path):
    command("optimize", package, "-o", tmp_path / "a.mlpackage")
    done = command("optimize", package, "-o", tmp_path / "b.mlpackage")
    assert "batch_norm" in done.stdout
    assert run("diff", tmp_path / "a.mlpackage", tmp_path / "b.mlpackage").returncode == 0
    done = run("optimize", package, "-o", tmp_path / "c.onnx")
    assert done.returncode == 2 and "a Core ML program is written to .mlpackage" in done.stderr
    done = run("optimize", package, "-o", tmp_path / "c.mlpackage", "--opset", 20)
    assert done.returncode == 2 and "--opset is for ONNX models" in done.stderr
    assert not (tmp_path / "c.mlpackage").exists()


def test_folders_of_both_formats(model, package, tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    model.rename(models / "in.onnx")
    package.rename(models / "in.mlpackage")
    told = json.loads(command("optimize", models, "-o", tmp_path / "out", "--json").stdout)
    assert [Path(t["output"]).name for t in told] == ["in.mlpackage", "in.onnx"] and all(t["ok"] for t in told)


def test_a_folder_has_a_line_for_each_model_and_a_total(model, tmp_path):
    (tmp_path / "in").mkdir()
    for name in "ab":
        shutil.copy(model, tmp_path / "in" / f"{name}.onnx")
    (tmp_path / "in" / "c.onnx").write_bytes(b"no model")
    call = ("optimize", tmp_path / "in", "-o", tmp_path / "out", "--opset", 20)
    done = run(*call)
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and len(lines) == 3, done.stdout
    assert lines[0].startswith(f"{tmp_path}/in/a.onnx: nodes 5 -> 1  -80.0 %, file ")
    assert lines[2].startswith(f"2 models -> {tmp_path}/out: nodes 10 -> 2  -80.0 %, file ") and lines[2].endswith(
        "; 1 failed"
    )
    assert run(*call, "-v").stdout.count("before        after") == 2


def test_packages_have_the_commands_of_models(package):
    assert "no faults" in command("check", package).stdout
    assert "the models compute the same" in command("compare", package, package).stdout
    names = {p["dialect"] for p in json.loads(command("passes", "--json").stdout)[0]["passes"]}
    assert names == {"mil", "onnx"}


# --- 2: one verdict


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_one_verdict_on_models_whose_roundings_add_up(tmp_path, seed):
    source, result = tmp_path / "in.onnx", tmp_path / "out.onnx"
    before = encoders.encoder(seed=seed)
    onnx.save(before, source)
    for how in ("model", "pass"):
        done = command("optimize", source, "-o", result, "--opset", 23, "--verify", how)
        assert "largest error " in done.stdout
        assert "largest error " in command("compare", source, result).stdout
    # A weight that is wrong by a thousandth is found.
    after = onnx.load(result)
    weight = next(t for t in after.graph.initializer if len(t.dims) == 2)
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(1.001), weight.name))
    onnx.save(after, result)
    done = run("compare", source, result)
    assert done.returncode == 1 and "is allowed)" in done.stdout


def test_tolerances(tmp_path):
    def scaled(name, by):
        value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [7, 11]) for n in "xy"]
        by = numpy_helper.from_array(np.array(by, np.float32), "by")
        graph = helper.make_graph([helper.make_node("Mul", ["x", "by"], ["y"])], "g", value[:1], value[1:], [by])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / name)
        return tmp_path / name

    a, b = scaled("a.onnx", 1.0), scaled("b.onnx", 1.01)
    assert run("compare", a, b).returncode == 1
    assert run("compare", a, b, "--rtol", 0.009).returncode == 1
    done = command("compare", a, b, "--rtol", 0.011, "--json")
    (told,) = json.loads(done.stdout)
    assert told["ok"] and told["rtol"] == 0.011 and 0.01 < told["largest_error"] < 0.1
    assert "result 'y'" in told["largest_error_at"]
    assert run("compare", a, b, "--rtol", -1).returncode == 2
    assert not sardonyx.compare(a, b, rtol=0.009) and sardonyx.compare(a, b, rtol=0.011)


def test_tolerances_of_an_optimization(tmp_path):
    source = tmp_path / "in.onnx"
    onnx.save(encoders.encoder(), source)
    done = run("optimize", source, "-o", tmp_path / "out.onnx", "--opset", 23, "--verify", "model", "--atol", 1e-9)
    assert done.returncode == 1 and "--rtol and --atol" in done.stderr and not (tmp_path / "out.onnx").exists()
    command("optimize", source, "-o", tmp_path / "out.onnx", "--opset", 23, "--verify", "model", "--atol", 1e-4)
    with pytest.raises(sardonyx.Error, match="changed what the model computes"):
        sardonyx.optimize(str(source), str(tmp_path / "b.onnx"), opset=23, verify="pass", atol=1e-9)


# --- 3: what is counted


def test_tables_count_what_the_file_has(package, tmp_path):
    def counted(path):
        (told,) = json.loads(command("info", path, "--json").stdout)
        return told["nodes"], told["ops"]

    (told,) = json.loads(command("optimize", package, "-o", tmp_path / "out.mlpackage", "--json").stdout)
    assert counted(package) == (told["before"]["nodes"], told["before"]["ops"])
    assert counted(tmp_path / "out.mlpackage") == (told["after"]["nodes"], told["after"]["ops"])


def test_identities_that_the_format_asks_for_are_counted(tmp_path):
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [7]) for n in "xyz"]
    nodes = [helper.make_node("Identity", ["x"], ["a"]), helper.make_node("Identity", ["a"], ["y"])]
    nodes.append(helper.make_node("Abs", ["x"], ["z"]))
    graph = helper.make_graph(nodes, "g", value[:1], value[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "a.onnx")
    (told,) = json.loads(command("optimize", tmp_path / "a.onnx", "-o", tmp_path / "b.onnx", "--json").stdout)
    written = onnx.load(tmp_path / "b.onnx").graph.node
    assert told["after"]["nodes"] == len(written) == 2 and told["after"]["ops"] == {"Abs": 1, "Identity": 1}


# --- 5: commands that Python runs


def in_this_python(**more):
    path = os.pathsep.join([str(Path(sardonyx.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return {"SARDONYX_PYTHON": sys.executable, "PYTHONPATH": path, **more}


def bare_python(tmp_path, *packages):
    """An interpreter without sardonyx, or with that and no JAX."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "$@"\n')
    script.chmod(0o755)
    return script


@pytest.mark.parametrize("verb", ["convert", "info", "profile"])
def test_a_python_without_sardonyx(tmp_path, verb):
    python = bare_python(tmp_path)
    more = ["-o", "x.onnx"] if verb == "convert" else []
    done = run(verb, "net:f", *more, env={"SARDONYX_PYTHON": str(python)}, cwd=tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"'{verb}' runs in {sys.executable} (Python {sys.version_info[0]}." in done.stderr
    assert "-m pip install 'sardonyx[jax]'" in done.stderr and "SARDONYX_PYTHON=" in done.stderr


def test_a_python_without_jax(tmp_path):
    """jax is hidden by a finder that sitecustomize installs."""
    (tmp_path / "net.py").write_text("def f(x):\n    return x\n")
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'jax':\n"
        "            raise ModuleNotFoundError(\"No module named 'jax'\", name='jax')\n"
        "sys.meta_path.insert(0, Hide())\n"
    )
    env = in_this_python()
    env["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{env['PYTHONPATH']}"
    done = run("convert", "net:f", "-i", "f32[3]", "-o", "x.onnx", env=env, cwd=tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"JAX is not installed for {sys.executable}" in done.stderr and "'sardonyx[jax]'" in done.stderr


@pytest.mark.parametrize("verb", ["convert", "info", "profile"])
def test_help_without_python(verb):
    done = run(verb, "--help", env={"SARDONYX_PYTHON": "/nowhere/python"})
    assert done.returncode == 0 and f"sardonyx {verb}" in done.stdout and "Exit codes" in done.stdout
    done = run("help", verb, env={"SARDONYX_PYTHON": "/nowhere/python"})
    assert done.returncode == 0 and f"sardonyx {verb}" in done.stdout
    more = ["-o", "x.onnx"] if verb == "convert" else []
    done = run(verb, "a:b", *more, env={"SARDONYX_PYTHON": "/nowhere/python"})
    assert done.returncode == 1 and "cannot start /nowhere/python" in done.stderr


def test_few_commands_and_few_options():
    """What somebody has to learn: commands, options of each, and their names."""
    page = command("man").stdout.replace("\\-", "-")
    commands = [line.split()[2] for line in page.splitlines() if line.startswith(".SS ")]
    assert len(commands) <= 14 and len(set(commands)) == len(commands)
    table = (Path(__file__).parents[3] / "cli" / "options" / "options.cc").read_text().partition("kOptions[] = {")[2]
    rows = [line for line in table.partition("\n};")[0].splitlines() if line.startswith("    {")]
    assert len(rows) <= 100
    names = {w for line in page.splitlines() if line.startswith("\\fB-") for w in re.findall(r"--[a-z0-9-]+", line)}
    assert len(names) <= 64, sorted(names)


def test_options_of_the_command_itself_are_for_all_formats():
    assert "ONNX: Print" not in command("--help").stdout


def test_the_page_lists_the_options():
    root = Path(__file__).parents[3]
    sys.path.insert(0, str(root / "scripts" / "pages"))
    import options_page

    program = built.BUILD / "sardonyx"
    if program.exists():
        assert options_page.page(program) == options_page.PAGE.read_text(), "run scripts/pages/options_page.py"


def test_modules_that_fail_to_import_have_no_traceback(tmp_path):
    pytest.importorskip("jax")
    (tmp_path / "lacks.py").write_text("import nowhere_to_be_found\n")
    (tmp_path / "fails.py").write_text("1 / 0\n")
    for name, said in (("lacks", "nowhere_to_be_found is not installed for"), ("fails", "ZeroDivisionError")):
        done = run("convert", f"{name}:f", "-o", "x.onnx", env=in_this_python(), cwd=tmp_path)
        assert done.returncode == 1 and said in done.stderr and "Traceback" not in done.stderr
        done = run("convert", f"{name}:f", "-o", "x.onnx", "--verbose", env=in_this_python(), cwd=tmp_path)
        assert done.returncode == 1 and "Traceback" in done.stderr


# --- 7: scripts


def test_every_command_prints_an_array(model, package, tmp_path):
    text, small = tmp_path / "m.sx", tmp_path / "small.onnx"
    command("view", model, "-o", text)
    commands = {
        "info": [model],
        "check": [model],
        "diff": [model, model],
        "compare": [model, model],
        "view": [model],
        "optimize": [model, "-o", small],
        "passes": [],
        "run": [model, "--seed", "0"],
        "convert": [model, "-o", tmp_path / "new.mlpackage"],
        "convert onnx": [model, "-o", small, "--opset", "20"],
        "convert text": [text, "-o", small],
        "optimize coreml": [package, "-o", tmp_path / "out.mlpackage"],
        "compare half": [package, "--precision", "f16", "--runs", "0"],
    }
    needed = {
        "info": {"file_bytes", "opsets", "inputs", "outputs", "nodes", "ops", "tensors", "tensor_bytes"},
        "check": {"nodes", "faults", "warnings"},
        "diff": {"after", "same", "interface", "ops", "tensor_bytes", "lines"},
        "compare": {"after", "numerics", "evaluations", "difference", "largest_error", "load_problems"},
        "view": {"output", "text"},
        "optimize": {"output", "before", "after", "seconds", "passes", "faults", "warnings"},
        "passes": {"passes", "presets"},
        "run": {"output", "results"},
        "convert": {"output", "nodes", "ops", "seconds"},
        "convert onnx": {"output", "before", "after", "seconds", "passes", "faults", "warnings"},
        "convert text": {"output", "before", "after"},
        "optimize coreml": {"output", "before", "after", "passes"},
        "compare half": {"ops", "safe", "runs", "ranges"},
    }
    for name, arguments in commands.items():
        verb = name.split()[0]
        (told,) = json.loads(command(verb, *arguments, "--json").stdout)
        assert told["schema"] == 1 and told["command"] == verb and told["ok"] is True
        assert needed[name] <= told.keys(), name
        page = (Path(__file__).parents[3] / "docs" / "reference" / "command_line.md").read_text()
        for key in told:
            assert f"`{key}`" in page, f"docs/reference/command_line.md does not say what {key} of {name} is"


@pytest.mark.parametrize(
    "name", ["info", "check", "diff", "compare", "view", "optimize", "run", "optimize coreml", "convert"]
)
def test_failures_are_objects_too(tmp_path, name):
    gone = tmp_path / "gone.onnx"
    arguments = {"diff": [gone, gone], "compare": [gone, gone], "optimize": [gone, "-o", tmp_path / "x.onnx"]}
    arguments["convert"] = [gone, "-o", tmp_path / "x.mlpackage"]
    if name == "optimize coreml":
        gone = tmp_path / "gone.mlpackage"
        arguments[name] = [gone, "-o", tmp_path / "x.mlpackage"]
    name, arguments = name.split()[0], arguments.get(name, [gone])
    done = run(name, *arguments, "--json")
    (told,) = json.loads(done.stdout)
    assert done.returncode == 1 and told["ok"] is False and told["error"]["code"] == "io" and told["command"] == name
    assert told["input"] == str(gone) and "error: " in done.stderr


def test_failed_files_stand_among_the_others(model, tmp_path):
    bad = tmp_path / "bad.onnx"
    bad.write_text("no model")
    done = run("optimize", model, bad, "-o", tmp_path / "out", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 1 and [t["ok"] for t in told] == [False, True]
    assert told[0]["error"]["code"] == "invalid_model" and told[1]["after"]["nodes"] == 5
    done = run("optimize", "--json")
    (told,) = json.loads(done.stdout)
    assert done.returncode == 2 and told["error"]["code"] == "invalid_argument"


def test_an_input_that_is_a_pytree_is_json(tmp_path):
    (tmp_path / "net.py").write_text("def f(cache, x):\n    return cache['k'] + x, cache['i']\n")
    cache = '{"k": ["B", "P", 4], "i": "i32[B]"}'
    call = ("convert", "net:f", "-i", cache, "-i", "f32[4]", "-o", "x.onnx")
    done = run(*call, env=in_this_python(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    onnx = pytest.importorskip("onnx")
    inputs = onnx.load(tmp_path / "x.onnx").graph.input
    assert [i.name for i in inputs] == ["cache.i", "cache.k", "x"]
    assert [d.dim_param or d.dim_value for d in inputs[1].type.tensor_type.shape.dim] == ["B", "P", 4]
    done = run("convert", "net:f", "-i", "{k: 3}", "-i", "f32[4]", "-o", "x.onnx", env=in_this_python(), cwd=tmp_path)
    assert done.returncode == 1 and "not JSON at column 2" in done.stderr and "take quotes" in done.stderr


def test_a_cache_as_python_spells_it(tmp_path):
    pytest.importorskip("jax")
    (tmp_path / "net.py").write_text("def f(cache, x):\n    return cache[0]['k'].sum() + x\n")
    call = ("convert", "net:f", "-i", "[{'k': ('B', 'P', 4, 16)}]", "-i", "B,3", "-o", "x.onnx", "--verify")
    done = run(*call, env=in_this_python(), cwd=tmp_path)
    assert done.returncode == 0 and "the result agrees" in done.stdout, done.stderr
    inputs = pytest.importorskip("onnx").load(tmp_path / "x.onnx").graph.input
    assert [[d.dim_param or d.dim_value for d in i.type.tensor_type.shape.dim] for i in inputs] == [
        ["B", "P", 4, 16],
        ["B", 3],
    ]
    done = run(
        "convert", "net:f", "-i", "[{'k': 'B;4'}]", "-i", "B,3", "-o", "x.onnx", env=in_this_python(), cwd=tmp_path
    )
    assert done.returncode == 1 and "input 0[0]['k'] \"B;4\" is not understood" in done.stderr
    done = run("convert", "net:f", "-i", "B,3", "-o", "x.onnx", env=in_this_python(), cwd=tmp_path)
    assert "one entry per argument: 1 given, and the arguments are cache, x" in done.stderr


def test_a_package_is_compared_with_jax(tmp_path):
    pytest.importorskip("jax")
    (tmp_path / "net.py").write_text("import jax.numpy as jnp\ndef f(x):\n    return jnp.tanh(x), x.argmax(-1)\n")
    call = ("convert", "net:f", "-i", "f32[B,3]", "-o", "x.mlpackage", "--verify")
    done = run(*call, env=in_this_python(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "compared with JAX: all 2 results agree; the largest difference is " in done.stdout
    assert "\nwarning: sizes without an upper bound (x: f32[B,3])" in done.stderr
    done = run(*call, "-q", env=in_this_python(), cwd=tmp_path)
    assert done.returncode == 0 and done.stdout == ""


def test_exports_print_an_array(tmp_path):
    pytest.importorskip("jax")
    (tmp_path / "net.py").write_text("def f(x):\n    return x + x\n")
    for verb, more in (("convert", ["-o", "x.onnx"]), ("info", [])):
        done = run(verb, "net:f", "-i", "f32[3]", *more, "--json", env=in_this_python(), cwd=tmp_path)
        (told,) = json.loads(done.stdout)
        assert told["schema"] == 1 and told["command"] == verb and told["ok"] and told["input"] == "net:f"
        done = run(verb, "net:g", "-i", "f32[3]", *more, "--json", env=in_this_python(), cwd=tmp_path)
        (told,) = json.loads(done.stdout)
        assert done.returncode == 1 and not told["ok"] and "has no 'g'" in told["error"]["message"]


def test_a_checked_export_says_by_how_much_it_agrees(tmp_path):
    pytest.importorskip("jax")
    (tmp_path / "net.py").write_text("import jax.numpy as jnp\ndef f(x):\n    return jnp.tanh(x), x * 2\n")
    call = ("convert", "net:f", "-i", "f32[B,3]", "-o", "x.onnx", "--verify")
    done = run(*call, env=in_this_python(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "compared with JAX: all 2 results agree; the largest difference is " in done.stdout
    (told,) = json.loads(run(*call, "--json", env=in_this_python(), cwd=tmp_path).stdout)
    assert told["check"].startswith("all 2 results agree")


def test_findings_print_an_array(tmp_path):
    plugin = tmp_path / "plugin.py"
    plugin.write_text("import onnx\n")
    done = subprocess.run([sys.executable, "-m", "sardonyx.plugins", plugin, "--json"], capture_output=True, text=True)
    (told,) = json.loads(done.stdout)
    assert told["schema"] == 1 and told["input"] == str(plugin) and told["ok"] == (not told["findings"])


def test_standard_input_and_output(model, tmp_path):
    data = model.read_bytes()
    done = run("optimize", "-", "-o", "-", "--opset", "20", stdin=data, text=False)
    assert done.returncode == 0, done.stderr
    assert [n.op_type for n in onnx.load(io.BytesIO(done.stdout)).graph.node] == ["Gelu"]
    assert b"before" in done.stderr  # the table
    done = run("info", "-", "--json", stdin=data, text=False)
    assert json.loads(done.stdout)[0]["nodes"] == 5
    done = run("optimize", "-", "-o", tmp_path / "a.onnx", "--json", stdin=data, text=False)
    assert json.loads(done.stdout)[0]["input"] == "-" and (tmp_path / "a.onnx").exists()
    # What is only larger is given back once, as it was.
    done = run("optimize", tmp_path / "a.onnx", "-o", "/dev/stdout", "--quiet", text=False)
    assert done.stdout == (tmp_path / "a.onnx").read_bytes()
    done = run("optimize", "-", "-o", "-", stdin=b"no model", text=False)
    assert done.returncode == 1 and done.stdout == b""


def test_a_dry_run_writes_nothing(model, package, tmp_path):
    before = sorted(p.name for p in tmp_path.iterdir())
    for source, result in ((model, "new/a.onnx"), (package, "new/a.mlpackage")):
        (told,) = json.loads(command("optimize", source, "-o", tmp_path / result, "--dry-run", "--json").stdout)
        assert told["output"] is None and told["after"]["file_bytes"] > 0
        command("optimize", source, "-o", tmp_path / "other" / result)
        (again,) = json.loads(command("optimize", source, "-o", tmp_path / "other" / result, "--json").stdout)
        assert (
            again["after"]["nodes"] == told["after"]["nodes"]
            and again["after"]["file_bytes"] == told["after"]["file_bytes"]
        )
    shutil.rmtree(tmp_path / "other")
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    assert "nothing is written" in command("optimize", model, "-o", tmp_path / "a.onnx", "-n").stdout
    assert run("optimize", model, "-o", tmp_path / "a.txt", "-n").returncode == 2


def test_verbose_says_what_each_pass_did(model, tmp_path):
    done = command("optimize", model, "-o", tmp_path / "a.onnx", "--opset", 20, "--verbose")
    assert " ms  fuse_gelu" in done.stdout or "fuse_gelu " in done.stdout
    assert "passes" in done.stdout and "changed nothing" in done.stdout
    assert "changed nothing" not in command("optimize", model, "-o", tmp_path / "a.onnx", "--opset", 20).stdout


def test_exit_codes_are_in_help_and_guide(model):
    for page in (["--help"], ["optimize", "--help"], ["compare", "--help"]):
        assert "Exit codes: 0 done; 1 " in " ".join(command(*page).stdout.split())
    guide = (Path(__file__).parents[3] / "docs" / "reference" / "command_line.md").read_text()
    assert "| 0 |" in guide and "| 1 |" in guide and "| 2 |" in guide


# --- 8: files that are no models


def foreign_files(folder):
    files = {
        "README.md": (b"# A title\n\nThis is text.\n", "this is text, not an ONNX model"),
        "a.zip": (None, "a zip archive"),
        "model.pt": (None, "a PyTorch file"),
        "old.pt": (b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", "a PyTorch file"),
        "x.npz": (None, "an archive of NumPy arrays"),
        "model.keras": (None, "a Keras file"),
        "w.safetensors": (struct.pack("<Q", 16) + b'{"a":[0,1,2,33]}' + bytes(7), "a safetensors file"),
        "p.pkl": (pickle.dumps({"a": 1}), "a Python pickle"),
        "m.tflite": (b"\x1c\0\0\0TFL3" + bytes(40), "a TensorFlow Lite model"),
        "m.ort": (b"\x1c\0\0\0ORTM" + bytes(40), "onnxruntime's own format"),
        "k.h5": (b"\x89HDF\r\n\x1a\n" + bytes(40), "an HDF5 file"),
        "g.gguf": (b"GGUF\3\0\0\0" + bytes(40), "a GGUF file"),
        "l.onnx": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n", "Git LFS"),
        "page.onnx": (b"<!DOCTYPE html><html>", "a web page"),
        "m.textproto": (b'ir_version: 8\nproducer_name: "x"\n', "protobuf's text form"),
        "j.json": (b'{"a": 1}', "JSON"),
        "e.onnx": (b"", "an empty file"),
        "m.gz": (b"\x1f\x8b\x08" + bytes(40), "compressed with gzip"),
        "x.npy": (b"\x93NUMPY\1\0" + bytes(40), "a NumPy array"),
    }
    inside = {"a.zip": "a.txt", "model.pt": "archive/data.pkl", "x.npz": "x.npy", "model.keras": "model.weights.h5"}
    for name, (data, said) in files.items():
        if data is None:
            with zipfile.ZipFile(folder / name, "w") as archive:
                archive.writestr(inside[name], b"something")
        else:
            (folder / name).write_bytes(data)
        yield name, said


def test_files_are_told_by_their_first_bytes(tmp_path):
    for name, said in foreign_files(tmp_path):
        done = run("info", tmp_path / name)
        assert done.returncode == 1 and said in done.stderr, (name, done.stderr)
        assert "not an ONNX model" in done.stderr and name in done.stderr
        with pytest.raises(sardonyx.Error, match="not an ONNX model"):
            sardonyx.optimize((tmp_path / name).read_bytes())
        done = run("optimize", tmp_path / name, "-o", tmp_path / "out.onnx")
        assert done.returncode == 1 and said in done.stderr and not (tmp_path / "out.onnx").exists()
    bad = tmp_path / "bad.mlmodel"
    bad.write_bytes(b"# text\n")
    assert "this is text, not a Core ML model" in run("info", bad).stderr


def test_damaged_models_are_not_taken_for_something_else(model, tmp_path):
    data = model.read_bytes()
    (tmp_path / "cut.onnx").write_bytes(data[: len(data) // 2])
    done = run("info", tmp_path / "cut.onnx")
    assert done.returncode == 1 and "this is " not in done.stderr


def test_folders_that_are_no_packages(model, tmp_path):
    done = run("info", tmp_path)
    assert done.returncode == 1 and "this is a folder, not a model" in done.stderr and "in.onnx" in done.stderr
    (tmp_path / "saved_model.pb").write_bytes(b"")
    assert "a SavedModel of TensorFlow" in run("info", tmp_path).stderr


# --- 9: terminals


@pytest.mark.parametrize("columns", [60, 80])
def test_pages_fit_the_terminal(columns):
    env = {"COLUMNS": str(columns)}
    pages = [["--help"], ["optimize", "--help"], ["convert", "--help"], ["compare", "--help"]]
    pages += [["passes"], ["passes", "fuse"]]
    for page in pages:
        done = run(*page, env=env)
        assert done.returncode == 0
        assert max(map(len, done.stdout.splitlines())) <= columns, (page, max(done.stdout.splitlines(), key=len))
    done = run("passes", "fuse_gelu", env=env)
    lines = [line for line in done.stdout.splitlines() if len(line) > columns]
    assert all(" " not in line.strip().partition("  ")[2].strip() for line in lines)  # a word that is longer


def test_passes_with_a_part_of_a_name():
    lines = command("passes", "transpose").stdout.splitlines()
    assert any("move_transposes" in line for line in lines) and not any("fuse_gelu" in line for line in lines)
    assert run("passes", "no_such_pass").returncode == 2


def test_passes_of_a_conversion_to_core_ml():
    lines = [line.strip() for line in command("passes", "coreml").stdout.splitlines()]
    assert lines[1] == "share_transposed_weights" and lines[-1] == "dead_code_elimination"
    assert "add_fp16_cast  (with precision f16)" in lines
    assert "dequantize_products" in command("passes", "coreml-prepare").stdout


def on_a_terminal(*arguments, env=None):
    import pty

    program = built.BUILD / "sardonyx"
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [program, *map(str, arguments)],
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm", **(env or {})},
    )
    os.close(follower)
    data = b""
    while True:
        try:
            more = os.read(leader, 65536)
        except OSError:
            break
        if not more:
            break
        data += more
    process.wait()
    os.close(leader)
    return data.decode()


def test_colours_are_for_terminals():
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    assert "\x1b[1;31merror:\x1b[0m" in on_a_terminal("info", "gone.onnx", env=environment)
    assert "\x1b[" not in on_a_terminal("info", "gone.onnx", env={"NO_COLOR": "1"})
    assert "\x1b[" not in on_a_terminal("info", "gone.onnx", env={"TERM": "dumb"})
    assert "\x1b[" not in run("info", "gone.onnx").stderr
    assert "\x1b[1mUsage:\x1b[0m" in on_a_terminal("--help")


def completions(*words):
    script = command("completion", "bash").stdout
    line = " ".join(map(repr, ["sardonyx", *words]))
    program = built.BUILD / "sardonyx"
    bash = f'sardonyx() {{ {program} "$@"; }}\n{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _sardonyx; printf \'%s\\n\' "${{COMPREPLY[@]}}"'
    return subprocess.run(["bash", "-c", bash], capture_output=True, text=True, check=True).stdout.split()


def test_tab_completion():
    assert completions("opt") == ["optimize"]
    assert completions("optimize", "--verb") == ["--verbose"]
    assert set(completions("optimize", "--verify", "")) == {"off", "model", "pass"}
    assert completions("passes", "reduce_stren") == ["reduce_strength"]
    assert set(completions("completion", "")) >= {"bash", "zsh", "fish"}
    assert "--calibrate" in completions("optimize", "--c")
    for shell in ("zsh", "fish"):
        script = command("completion", shell).stdout
        assert "compare" in script and "keep-names" in script
        if shutil.which(shell):
            subprocess.run([shell, "-n"], input=script, text=True, check=True)
    assert run("completion", "tcsh").returncode == 2


def test_the_manual_page():
    page = command("man").stdout
    assert page.startswith(".TH SARDONYX 1") and "\\-\\-keep\\-names" in page and ".SH EXIT STATUS" in page
    for name in ("optimize", "compare", "convert", "info"):
        assert f".SS sardonyx {name.replace('-', chr(92) + '-')}" in page


# --- 10: parts of models


def test_a_part_between_two_values(model, tmp_path):
    out = tmp_path / "part.onnx"
    command(
        "optimize", model, "-o", out, "--inputs", "erf,x", "--outputs", "twice", "--passes", "none", "--verify", "model"
    )
    part = onnx.load(out)
    assert [i.name for i in part.graph.input] == ["erf", "x"] and [o.name for o in part.graph.output] == ["twice"]
    assert [n.op_type for n in part.graph.node] == ["Add", "Mul"]
    assert {t.name for t in part.graph.initializer} == {"one"}
    onnx.checker.check_model(part, full_check=True)
    x, erf = np.ones((3, 13), np.float32), np.full((3, 13), 0.25, np.float32)
    assert np.array_equal(sardonyx.evaluate(part, {"x": x, "erf": erf})["twice"], np.full((3, 13), 1.25))
    same = sardonyx.optimize(onnx.load(model), inputs=["erf", "x"], outputs=["twice"], passes="none")
    assert same.graph == part.graph


def test_only_the_results_of_a_part(model):
    part = sardonyx.optimize(onnx.load(model), outputs=["erf", "shifted"], passes="none")
    assert [o.name for o in part.graph.output] == ["erf", "shifted"] and len(part.graph.node) == 3
    assert part.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (["erff"], [], "the model has no value 'erff'"),
        (["erf"], ["y"], "the part also depends on the input 'x'"),
        (["erf", "x", "scaled"], ["y"], "no result of the part depends on 'scaled'"),
        (["x", "x"], [], "--inputs names 'x' twice"),
        ([], ["z"], "the model has no value 'z'"),
    ],
)
def test_parts_that_cannot_be_taken(model, inputs, outputs, message):
    with pytest.raises(sardonyx.Error, match=message):
        sardonyx.optimize(onnx.load(model), inputs=inputs, outputs=outputs)


def test_python_says_what_the_commands_say(model, tmp_path):
    info = sardonyx.info(model)
    assert info.nodes == 5 and info.inputs == {"x": "f32[B,13]"} and info.ops["Mul"] == 2 and info.format == "onnx"
    assert sardonyx.info(onnx.load(model)).ops == info.ops and "5 nodes" in str(info)
    assert info.flops == "65*B" and info.sizes == {"B": (1, None)} and info.peak_bytes == 3 * 13 * 4
    assert sardonyx.info(model, input_shapes={"x": (7, 13)}).flops == str(65 * 7)
    assert info.oldest_runtime == "ort-1.17" and info.not_run["WebGPU"] == []
    assert sardonyx.check(model) and "no faults" in str(sardonyx.check(model))
    small = sardonyx.optimize(onnx.load(model), opset=20)
    diff = sardonyx.diff(model, small)
    assert diff and not sardonyx.diff(model, model) and diff.ops["Gelu"] == ("", "1")
    assert diff.interface["opset of ai.onnx"] == ("17", "20")
    found = sardonyx.compare(model, small)
    assert (
        found and found.evaluations == 5 and 0 < found.largest_error < 1e-5 and "result 'y'" in found.largest_error_at
    )
    wrong = gelu()
    wrong.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.float32(2), "one"))
    found = sardonyx.compare(model, wrong)
    assert not found and "became" in found.difference and "differ" in str(found)
    for name in ("compare", "diff", "check", "info", "testing"):
        assert name in dir(sardonyx) and name in sardonyx.__all__


def test_what_check_finds(tmp_path):
    value = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [7]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [11]),
    ]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", value[:1], value[1:])
    graph.initializer.append(numpy_helper.from_array(np.ones((5, 11), np.float32), "w"))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "a.onnx")
    found = sardonyx.check(tmp_path / "a.onnx")
    assert not found and "MatMul" in found.faults[0]
    (told,) = json.loads(run("check", tmp_path / "a.onnx", "--json").stdout)
    assert told["faults"] == found.faults and not told["ok"]


# --- 11: what a newer opset would give


def test_a_hint_where_a_newer_opset_fuses_more(model, tmp_path):
    done = command("optimize", model, "-o", tmp_path / "a.onnx")
    assert "hint: --opset 20 leaves 1 node instead of 5 (Gelu)" in done.stdout
    (told,) = json.loads(command("optimize", model, "-o", tmp_path / "a.onnx", "--json").stdout)
    assert told["hint"] == {"opset": 20, "nodes": 1, "operators": ["Gelu"]}
    (told,) = json.loads(command("optimize", model, "-o", tmp_path / "b.onnx", "--opset", 20, "--json").stdout)
    assert told["after"]["nodes"] == 1 and "hint" not in told
    assert "hint" not in command("optimize", model, "-o", tmp_path / "a.onnx", "--quiet").stdout
    onnx.save(encoders.encoder(layers=1), tmp_path / "e.onnx")
    (told,) = json.loads(command("optimize", tmp_path / "e.onnx", "-o", tmp_path / "f.onnx", "--json").stdout)
    hint = told["hint"]
    (told,) = json.loads(
        command("optimize", tmp_path / "e.onnx", "-o", tmp_path / "f.onnx", "--opset", hint["opset"], "--json").stdout
    )
    assert told["after"]["nodes"] == hint["nodes"] and set(hint["operators"]) <= told["after"]["ops"].keys()
