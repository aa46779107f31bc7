# ruff: noqa: F811
"""Command lines as people type them: other tools' spellings, typos, a second run."""

import json
import os
import subprocess
import sys

import command as built
import onnx
import pytest
import sardonyx
from command import sardonyx as command
from test_command import gelu, in_this_python, model, package, run  # noqa: F401


def test_the_output_as_a_second_argument(model, tmp_path):
    command("optimize", model, tmp_path / "a.onnx")
    command(model, tmp_path / "b.onnx")
    command("optimize", model, tmp_path / "c.onnx", "--opset", 20, "--quiet")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert len(onnx.load(tmp_path / "c.onnx").graph.node) == 1
    command("optimize", model, tmp_path / "a.onnx")  # once more
    other = gelu()
    other.graph.output[0].name = other.graph.node[-1].output[0] = "z"
    onnx.save(other, tmp_path / "other.onnx")
    done = run("optimize", model, tmp_path / "other.onnx")  # not made from it: perhaps one more to optimize
    assert done.returncode == 2 and f"help: sardonyx optimize {model} -o {tmp_path}/other.onnx " in done.stderr
    assert onnx.load(tmp_path / "other.onnx") == other
    command("convert", model, tmp_path / "m.mlpackage")
    command("convert", model, tmp_path / "m.mlpackage", "-q")
    done = run("optimize", model)
    assert done.returncode == 2 and f"help: sardonyx optimize {model} -o in-small.onnx" in done.stderr
    done = run(model)
    assert done.returncode == 2 and f"help: sardonyx info {model}" in done.stderr


def test_help_as_a_command(model):
    assert run("help").stdout == run("--help").stdout
    assert run("help", "optimize").stdout == run("optimize", "--help").stdout
    done = run("help", "optimise")
    assert done.returncode == 2 and "did you mean 'optimize'?" in done.stderr


@pytest.mark.parametrize("option", ["--overwrite-input-shape", "--input-shapes", "--input-shape"])
def test_names_of_options_in_other_tools(model, tmp_path, option):
    command("optimize", model, "-o", tmp_path / "a.onnx", option, "x:7,13")
    assert onnx.load(tmp_path / "a.onnx").graph.input[0].type.tensor_type.shape.dim[0].dim_value == 7


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ("--target-opset", "use --opset N"),
        ("--model-check", "use --verify model"),
        ("--opst", "did you mean --opset?"),
        ("--skip-constant-folding", "use --skip fold_constants"),
        ("--batch", "use --input-shape NAME:8,3,224,224"),
        ("--fp16", "use --precision f16"),
        ("--dtype", "use --precision f16"),
        ("-f", "an existing file is replaced"),
    ],
)
@pytest.mark.parametrize("output", [[], ["-o"]], ids=["second argument", "-o"])
def test_unknown_options_are_answered(model, tmp_path, given, answer, output):
    done = run("optimize", model, *output, tmp_path / "a.onnx", given)
    assert done.returncode == 2 and f"there is no option {given}" in done.stderr and answer in done.stderr


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (["-q", "{}", "b.onnx"], "help: sardonyx optimize -q {} b.onnx"),
        (["--json", "info", "{}"], "help: sardonyx info --json {}"),
        (["--opset", "18", "{}", "-o", "b.onnx"], "help: sardonyx optimize --opset 18 {} -o b.onnx"),
        (["-v"], "did you mean -V?"),
        (["--verison"], "did you mean --version?"),
        (["-x", "{}"], "there is no option -x"),
    ],
)
def test_options_in_front_of_the_command(model, given, answer):
    done = run(*(g.format(model) for g in given))
    assert done.returncode == 2 and answer.format(model) in done.stderr


def test_the_version_as_people_ask_for_it():
    said = {run(asked).stdout for asked in ("--version", "-V", "version")}
    assert len(said) == 1 and said.pop().strip() == sardonyx.__version__


def test_verify_alone_compares_the_model(model, tmp_path):
    for arguments in (("--verify", model, "-o", tmp_path / "a.onnx"), (model, tmp_path / "b.onnx", "--verify")):
        done = run("optimize", *arguments)
        assert done.returncode == 0 and "evaluations before and after compared" in done.stdout, done.stderr
    assert "compared" not in run("optimize", model, "-o", tmp_path / "c.onnx", "--verify", "off").stdout
    assert run("optimize", model, "-o", tmp_path / "c.onnx", "--verify", "modl").returncode == 2
    _, report = sardonyx.optimize(str(model), str(tmp_path / "d.onnx"), verify=True, return_report=True)
    assert report.evaluations > 0


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (("convert", "net:f", "-o", "x.onnx", "--opst", "18"), "there is no option --opst\n  did you mean --opset?"),
        (("convert", "net:f"), "-o is missing: where the result goes\n  help: sardonyx convert net:f -o model.onnx"),
        (("info", "net:f", "--imput", "f32[3]"), "there is no option --imput\n  did you mean --input?"),
        (("profile", "m.onnx", "--by", "nod"), "--by: nod is not one of node, operator, module, line"),
        (("profile", "m.onnx", "--threds", "2"), "there is no option --threds\n  did you mean --threads?"),
        (("profile",), "model is required"),
    ],
)
def test_commands_of_python_answer_typos_as_the_others_do(arguments, answer):
    done = run(*arguments, env={"SARDONYX_PYTHON": "/nowhere/python"})
    assert done.returncode == 2 and answer in done.stderr and "\n  help: " in done.stderr
    module = subprocess.run(
        [sys.executable, "-m", "sardonyx", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | in_this_python(),
    )
    assert module.returncode == 2 and module.stderr == done.stderr


def test_options_that_repeat_reach_python(tmp_path):
    pytest.importorskip("jax")
    (tmp_path / "net.py").write_text("def f(x, y):\n    return x + y\n")
    call = ("convert", "net:f", "-i", "f32[3]", "-i", "[3]", "-o", "x.onnx")
    done = run(*call, env=in_this_python(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(onnx.load(tmp_path / "x.onnx").graph.input) == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_standard_output_is_an_error(model, tmp_path):
    calls = [
        ("info", model), ("info", model, "--json"), ("check", model), ("view", model), ("passes",),
        ("optimize", model, "-o", tmp_path / "a.onnx"), ("optimize", model, "-o", "-"), ("run", model, "--seed", "0"),
        ("diff", model, model), ("compare", model, model), ("view", model, "-o", "-"), ("completion", "bash"), ("--help",),
        ("--version",), ("info", "no.onnx", "--json"), ("profile", model, "--runs", 1),
    ]  # fmt: skip
    for call in calls:
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [built.BUILD / "sardonyx", *map(str, call)],
                stdout=full, stderr=subprocess.PIPE, text=True, env=os.environ | in_this_python(),
            )  # fmt: skip
        assert done.returncode == 1, call
        assert "cannot write" in done.stderr or "no.onnx" in call, (call, done.stderr)
        assert "Traceback" not in done.stderr and "terminate" not in done.stderr, (call, done.stderr)


def test_unknown_commands_are_answered():
    assert "did you mean 'optimize'?" in run("optimze", "a.onnx", "b").stderr
    assert "sardonyx optimize MODEL -o OUTPUT" in run("simplify", "a").stderr


@pytest.mark.parametrize("spelled", ["net:make", "net:make()", "net.py:f", "net:f", "sub/other.py:g"])
def test_spellings_of_a_function(tmp_path, spelled):
    pytest.importorskip("jax")
    (tmp_path / "net.py").write_text("def f(x):\n    return x + x\ndef make():\n    return f\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "other.py").write_text("def g(x):\n    return x * x\n")
    done = run("convert", spelled, "-i", "f32[3]", "-o", "out/x.onnx", "--json", env=in_this_python(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["nodes"] == 1 and (tmp_path / "out" / "x.onnx").exists()


def test_names_that_are_near(tmp_path):
    pytest.importorskip("jax")
    (tmp_path / "net.py").write_text("def forward(x):\n    return x + x\n")
    env = in_this_python()
    done = run("convert", "net:forwrad", "-o", "x.onnx", env=env, cwd=tmp_path)
    assert done.returncode == 1 and "did you mean 'forward'?" in done.stderr
    done = run("convert", "nett:forward", "-o", "x.onnx", env=env, cwd=tmp_path)
    assert done.returncode == 1 and "did you mean 'net'?" in done.stderr
    done = run("convert", "gone.py:forward", "-o", "x.onnx", env=env, cwd=tmp_path)
    assert done.returncode == 1 and "there is no file" in done.stderr


def test_what_is_no_function_is_answered(tmp_path):
    pytest.importorskip("jax")
    (tmp_path / "net.py").write_text(
        "def f(x):\n    return x\ndef make(width=8):\n    return f\nclass Net:\n    def __call__(self, x):\n        return x\n"
    )
    answers = {
        "net:make": "help: 'net:make()' calls it",
        "net:Net": "help: Net is a class; 'net:Net()' makes an object of it",
        "net.f": "did you mean 'net:f'?",
        "net.py": "help: name a function of the file: net.py:NAME",
        "net:": "expected module:function",
    }
    for spelled, answer in answers.items():
        for verb, more in (("convert", ["-o", "x.onnx"]), ("info", [])):
            done = run(verb, spelled, "-i", "f32[3]", *more, env=in_this_python(), cwd=tmp_path)
            assert done.returncode == 1 and answer in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert (
        run("convert", "net:make()", "-i", "f32[3]", "-o", "x.onnx", env=in_this_python(), cwd=tmp_path).returncode == 0
    )


def test_missing_folders_are_made_by_all_commands(model, package, tmp_path):
    new = tmp_path / "new"
    command("optimize", model, "-o", new / "a" / "m.onnx")
    command("convert", model, "--opset", 20, "-o", new / "b" / "m.onnx")
    command("view", model, "-o", new / "c" / "m.html")
    command("view", model, "-o", new / "d" / "m.sx")
    command("convert", new / "d" / "m.sx", "-o", new / "e" / "m.onnx")
    command("run", model, "--seed", "0", "-o", new / "f" / "y.npz")
    command("optimize", package, "-o", new / "g" / "m.mlpackage")
    command("optimize", model, "-o", f"{new}/h/")
    for name in ("a/m.onnx", "b/m.onnx", "c/m.html", "d/m.sx", "e/m.onnx", "f/y.npz", "g/m.mlpackage", "h/in.onnx"):
        assert (new / name).exists(), name


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ("export net:f -i x:3 -o x.onnx", "help: sardonyx convert net:f -i x:3 -o x.onnx"),
        ("lower p.sx -o p.onnx", "help: sardonyx convert p.sx -o p.onnx"),
        ("convert-opset a.onnx -o b.onnx --opset 20", "help: sardonyx convert a.onnx -o b.onnx --opset 20"),
        ("verify a.onnx b.onnx", "help: sardonyx compare a.onnx b.onnx"),
        ("explain net:f", "help: sardonyx info net:f"),
        ("where a.onnx n1", "help: sardonyx info MODEL --node NAME"),
        ("lint-plugin a.py", "help: python -m sardonyx.plugins FILES"),
        ("coreml optimize a.mlpackage -o b.mlpackage", "help: sardonyx optimize a.mlpackage -o b.mlpackage"),
        ("coreml verify a.mlpackage b.mlpackage", "help: sardonyx compare a.mlpackage b.mlpackage"),
        ("coreml fp16-report a.mlpackage", "help: sardonyx compare MODEL --precision f16"),
        ("coreml", "there are: convert, optimize"),
        ("convert a.onnx -o a.mlpackage --compute-precision fp32", "help: use --precision f16"),
        ("convert a.onnx -o a.mlpackage --minimum-deployment-target iOS16", "help: use --target iOS17"),
        ("convert a.onnx -o a.mlpackage --convert-to mlprogram", "help: no option is needed: the suffix of -o decides"),
        ("convert a.onnx -o a.mlpackage --skip-ops auto", "help: use --keep-f32"),
        ("convert net:f -o a.onnx --check", "help: use --verify"),
        ("convert net:f -o a.onnx --double", "help: use --precision f64"),
        ("convert a.onnx -o a.mlpackage --author me", "help: use --metadata author="),
        ("optimize a.mlpackage -o b.mlpackage --changes", "help: use -v"),
        ("optimize a.onnx -o b.onnx --data-file w", "help: use --external-data=NAME"),
        ("run a.onnx --random", "help: use --seed 0"),
        ("info a.onnx --text", "help: use the command `sardonyx view`"),
        ("profile a.onnx --against b.onnx", "help: use the other model as second argument"),
        ("diff a.onnx b.onnx --lines 5", "help: use --most N"),
    ],
)
def test_earlier_spellings_are_answered(given, answer):
    done = run(*given.split())
    assert done.returncode == 2 and answer in done.stderr and len(done.stderr.splitlines()) <= 3, done.stderr


@pytest.mark.parametrize("spelled", ["f16", "fp16", "float16"])
def test_spellings_of_a_precision(model, tmp_path, spelled):
    command("convert", model, "-o", tmp_path / "m.mlpackage", "--precision", spelled, "--size", "B <= 7", "-q")
    assert "f16" in command("view", tmp_path / "m.mlpackage").stdout
    done = run("convert", model, "-o", tmp_path / "n.mlpackage", "--precision", "f64")
    assert done.returncode == 2 and "models compute in f16 or f32" in done.stderr
    done = run("optimize", tmp_path / "m.mlpackage", "-o", tmp_path / "n.mlpackage", "--precision", "double")
    assert done.returncode == 2 and "models compute in f16 or f32" in done.stderr
    for unknown in ("bf16", "f8"):
        assert run("convert", model, "-o", tmp_path / "n.mlpackage", "--precision", unknown).returncode == 2


def test_options_that_do_not_apply_say_what_they_are_for(model, tmp_path):
    package = tmp_path / "m.mlpackage"
    for given, answer in (
        (("convert", "net:f", "-o", "x.onnx", "--dry-run"), "--dry-run is not for functions"),
        (("convert", "net:f", "-o", "x.onnx", "--external-data"), "--external-data is not for functions"),
        (("convert", "net:f", "-o", "x.onnx", "--functions", "inline"), "inline is not one of keep, outline"),
        (("convert", model, "-o", package, "--dry-run"), "--dry-run is not for this conversion"),
        (("optimize", model, "-o", "x.onnx", "--functions", "outline"), "outline is not one of keep, inline"),
        (("info", "net:f", "--node", "a"), "--node is not for functions"),
        (("info", model, "-i", "f32[3]"), f"--input is for functions, and {model} is an ONNX model"),
        (("compare", model, model, "--seed", "3"), "--seed is not for two models"),
        (("compare", package, "--precision", "f16", "-v"), "--verbose is not for the report on half precision"),
    ):
        done = run(*given)
        assert done.returncode == 2 and answer in done.stderr, done.stderr
    command("convert", model, "-o", package, "--size", "B <= 7", "-q")
    done = run("compare", model, package, "--numerics", "exact")
    assert done.returncode == 2 and "--numerics is for two models of one format" in done.stderr


def test_the_last_value_of_an_option_counts(model, tmp_path):
    command(
        "optimize", model, "-o", tmp_path / "a.onnx", "-o", tmp_path / "b.onnx", "--opset", "19", "--opset", "20", "-q"
    )
    assert not (tmp_path / "a.onnx").exists()
    assert onnx.load(tmp_path / "b.onnx").opset_import[0].version == 20


def test_short_options_join(model, tmp_path):
    assert command("optimize", model, "-qn", "-o", tmp_path / "a.onnx").stdout == ""
    assert not (tmp_path / "a.onnx").exists()
    command("optimize", model, f"-o{tmp_path / 'a.onnx'}", "--opset=20", "--quiet")
    assert len(onnx.load(tmp_path / "a.onnx").graph.node) == 1
    done = run("optimize", model, "-o", tmp_path / "b.onnx", "--quiet=yes")
    assert done.returncode == 2 and "--quiet takes no value" in done.stderr
    assert "--opset needs a value" in run("optimize", model, "-o", tmp_path / "b.onnx", "--opset").stderr


def test_a_function_is_compared_with_a_model(tmp_path):
    pytest.importorskip("jax")
    (tmp_path / "net.py").write_text("def f(x):\n    return x + x\ndef g(x):\n    return x * 3\n")
    here = {"cwd": tmp_path, "env": in_this_python()}
    for name in ("x.onnx", "x.mlpackage"):
        assert run("convert", "net:f", "-i", "f32[3]", "-o", name, **here).returncode == 0
        done = run("compare", "net:f", name, "-i", "f32[3]", **here)
        assert done.returncode == 0 and "agree" in done.stdout, done.stderr
        done = run("compare", name, "net:g", "-i", "f32[3]", "--json", **here)
        (told,) = json.loads(done.stdout)
        assert done.returncode == 1 and not told["ok"] and told["difference"]


def test_a_program_is_saved_and_converted(tmp_path):
    pytest.importorskip("jax")
    (tmp_path / "net.py").write_text("def f(x):\n    return x + x\n")
    done = run("convert", "net:f", "-i", "f32[3]", "-o", "x.sx", cwd=tmp_path, env=in_this_python())
    assert done.returncode == 0, done.stderr
    command("convert", tmp_path / "x.sx", "-o", tmp_path / "x.onnx")
    assert [n.op_type for n in onnx.load(tmp_path / "x.onnx").graph.node] == ["Add"]
    done = run("convert", tmp_path / "x.sx", "-o", tmp_path / "x.mlpackage")
    assert done.returncode == 2 and f"help: sardonyx convert {tmp_path / 'x.sx'} -o model.onnx" in done.stderr


def test_a_conversion_is_verified(model, tmp_path):
    done = command("convert", model, "-o", tmp_path / "m.mlpackage", "--size", "B <= 7", "--verify")
    assert "evaluations compared, largest error" in done.stdout
    (told,) = json.loads(
        command("convert", model, "-o", tmp_path / "m.mlpackage", "--size", "B <= 7", "--verify", "--json").stdout
    )
    assert told["evaluations"] > 0 and told["largest_error"] < 0.01
    done = run("convert", model, "-o", tmp_path / "m.mlpackage", "--size", "B <= 7", "--verify", "--atol", "1e-9")
    assert done.returncode == 1 and "differs from the model" in done.stderr
