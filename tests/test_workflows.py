"""Files of continuous integration and of packages: valid, and in step with the Makefile and the build."""

import importlib.util
import json
import re
import struct
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def load(path: Path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def makefile_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text()
    return {name for line in re.findall(r"^([a-z][a-z -]*):(?!=)", text, re.MULTILINE) for name in line.split()}


def steps(path: Path):
    """(job, step) of a workflow."""
    for name, job in load(path)["jobs"].items():
        for step in job["steps"]:
            yield name, job, step


def make_calls(path: Path):
    """Targets that a workflow makes, with the values of its matrix in place of ${{ matrix.X }}."""
    for _, job, step in steps(path):
        matrix = job.get("strategy", {}).get("matrix", {})
        for words in re.findall(r"(?:^|[;&\n] *)make +([^;&\n]+)", step.get("run", "")):
            if found := re.fullmatch(r"\$\{\{ matrix\.(\w+) \}\}", words.strip()):
                yield from matrix[found[1]]
            else:
                yield from (w for w in words.split() if "=" not in w)


def script():
    spec = importlib.util.spec_from_file_location("wheels", ROOT / "scripts" / "packages" / "wheels.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["wheels"] = module
    spec.loader.exec_module(module)
    return module


def test_there_are_the_workflows_that_the_project_needs():
    assert {p.stem for p in WORKFLOWS} == {"ci", "docs", "nightly", "wheels"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.stem)
def test_workflow_is_valid(path):
    workflow = load(path)
    assert True in workflow, "no `on:` (YAML reads the key as true)"
    assert workflow["permissions"] == {"contents": "read"}, "jobs that need more ask for it themselves"
    jobs = workflow["jobs"]
    for name, job in jobs.items():
        assert job["runs-on"], name
        for needed in [job["needs"]] if isinstance(job.get("needs"), str) else job.get("needs", []):
            assert needed in jobs, f"{name} needs {needed}"
    for name, _, step in steps(path):
        assert ("run" in step) != ("uses" in step), (name, step)
        if "uses" in step:
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@[\w./-]+", step["uses"]), (name, step)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.stem)
def test_workflow_makes_targets_that_exist(path):
    called = set(make_calls(path))
    assert called, "continuous integration runs what developers run: make targets"
    assert called <= makefile_targets(), called - makefile_targets()


def test_scheduled_checks_run_by_their_schedule():
    checks = tomllib.loads((ROOT / "tests" / "schedule.toml").read_text())["check"]
    nightly = ROOT / ".github" / "workflows" / "nightly.yml"
    assert {c["target"] for c in checks} == set(make_calls(nightly)) and len(checks) == len(set(make_calls(nightly)))
    jobs = load(nightly)["jobs"]
    for c in checks:
        (job,) = (
            n for n, j in jobs.items() if c["target"] in str(j["steps"]) + str(j.get("strategy", "")).replace("'", " ")
        )
        assert (c["when"] == "nightly") == (job == "nightly"), c["target"]


def test_presets_of_the_workflows_exist():
    presets = json.loads((ROOT / "CMakePresets.json").read_text())
    names = {p["name"] for p in presets["configurePresets"] if not p.get("hidden")}
    asked = {name for p in WORKFLOWS for name in re.findall(r"PRESET=(\S+)", p.read_text())}
    assert asked and asked <= names
    assert asked <= {p["name"] for p in presets["testPresets"]}


def test_files_that_workflows_run_exist():
    for path in WORKFLOWS:
        for name in re.findall(r"python ([\w/]+\.py)", path.read_text()):
            assert (ROOT / name).is_file(), f"{path.name} runs {name}"


def test_packages_have_the_version_of_the_build():
    version = re.search(r"project\(sardonyx VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    conda = (ROOT / "packaging" / "conda" / "meta.yaml").read_text()
    assert f'set version = "{version}"' in conda
    brew = (ROOT / "packaging" / "homebrew" / "sardonyx.rb").read_text()
    assert f'version "{version}"' in brew and f"sardonyx-{version}.tar.gz" in brew
    assert json.loads((ROOT / "packaging" / "npm" / "package.json").read_text())["version"] == version


def test_npm_package_names_files_that_exist():
    folder = ROOT / "packaging" / "npm"
    package = json.loads((folder / "package.json").read_text())
    made = {"sardonyx.wasm", "LICENSE"}  # by scripts/packages/wasm.py
    for name in set(package["files"]) - made:
        assert (folder / name).is_file(), name
    named = {
        package["main"],
        package["types"],
        *package["exports"]["."].values(),
        package["exports"]["./sardonyx.wasm"],
    }
    assert {name.removeprefix("./") for name in named} <= set(package["files"])
    for name in ("index.js", "worker.js", "host.js"):
        for other in re.findall(r'["\']\./([\w.]+\.(?:js|wasm))["\']', (folder / name).read_text()):
            assert other in package["files"], f"{name} loads {other}"


def test_docker_makes_a_target_that_exists():
    text = (ROOT / "packaging" / "Dockerfile").read_text()
    assert (
        set(re.findall(r"RUN make ([\w-]+)", text))
        and set(re.findall(r"RUN make ([\w-]+)", text)) <= makefile_targets()
    )


def test_packages_name_the_libraries_that_the_build_looks_for():
    """Names by system: the table in cmake/SardonyxDependencies.cmake is what a user without the libraries is told."""
    table = (ROOT / "cmake" / "SardonyxDependencies.cmake").read_text()
    rows = re.findall(r'"(\w+)\|(\S+)\|(\S+)\|(\S+)\|(\S+)"', table)
    assert {r[0] for r in rows} == {"fmt", "Eigen3", "nlohmann_json", "protozero", "xxhash", "re2", "GTest"}
    debian = (ROOT / "scripts" / "packages" / "debian-packages.txt").read_text().split()
    assert {r[1] for r in rows} <= set(debian)
    brew = (ROOT / "packaging" / "homebrew" / "sardonyx.rb").read_text()
    conda = load_conda()
    for name, _, _, formula, _ in rows:
        if name == "GTest":
            continue  # packages are built without the tests
        assert f'depends_on "{formula}"' in brew
        assert formula.replace("-", "_") in conda["requirements"]["host"] or formula in conda["requirements"]["host"]


def load_conda():
    """The recipe without conda's templates and selectors."""
    text = (ROOT / "packaging" / "conda" / "meta.yaml").read_text()
    text = re.sub(r"\{%.*?%\}", "", text)
    return yaml.safe_load(re.sub(r"\{\{.*?\}\}", "x", text))


def test_build_without_a_library_says_what_to_install(tmp_path):
    done = subprocess.run(
        ["cmake", "-S", ROOT, "-B", tmp_path, "-DSARDONYX_PYTHON=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON",
         "-DCMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    for line in (
        "apt install libfmt-dev libeigen3-dev",
        "dnf install fmt-devel eigen3-devel",
        "brew install fmt eigen",
    ):
        assert line in said, done.stderr


def test_wheels_are_made_for_each_platform_that_is_promised():
    wheels = script()
    assert set(wheels.PLATFORMS) == {
        "linux-x86_64", "linux-aarch64", "musl-x86_64", "windows-x86_64", "macos-arm64", "macos-x86_64",
    }  # fmt: skip
    toolchain = (ROOT / "cmake" / "toolchains" / "zig.cmake").read_text()
    targets = dict(re.findall(r"set\(zig_target_(\S+) (\S+)\)", toolchain))
    assert set(targets) == set(wheels.PLATFORMS)
    for name, p in wheels.PLATFORMS.items():
        if name.startswith("linux"):
            glibc = targets[name].rsplit(".", 1)[1]
            assert p.tag == f"manylinux_2_{glibc}_{p.machine}", "tag and C library differ"
        if name.startswith("macos"):
            oldest = re.search(r"macos\.(\d+)\.(\d+)", targets[name])
            assert p.tag == f"macosx_{oldest[1]}_{oldest[2]}_{p.machine}", "tag and oldest macOS differ"


def mach_o(
    oldest=13, library=b"/usr/lib/libSystem.B.dylib", python=b"_PyLong_Type", entry=b"_PyInit__sardonyx", lookup=0xFE
):
    """A file with one library, one symbol of it, one that is looked up when loaded, one defined."""
    names = [b"_malloc", python, entry]
    places = [1 + sum(len(n) + 1 for n in names[:i]) for i in range(3)]
    library = (library + b"\0").ljust(32, b"\0")
    commands = struct.pack("<6I", 0xC, 24 + len(library), 24, 0, 0, 0) + library
    commands += struct.pack("<6I", 0x32, 24, 1, oldest << 16, oldest << 16, 0)
    begin = 32 + len(commands) + 24
    symbols = struct.pack("<IBBHQ", places[0], 0x01, 0, 1 << 8, 0)
    symbols += struct.pack("<IBBHQ", places[1], 0x01, 0, lookup << 8, 0)
    symbols += struct.pack("<IBBHQ", places[2], 0x0F, 1, 0, 64)
    text = b"\0" + b"\0".join(names) + b"\0"
    commands += struct.pack("<6I", 2, 24, begin, 3, begin + len(symbols), len(text))
    return struct.pack("<8I", 0xFEEDFACF, 0, 0, 8, 3, len(commands), 0, 0) + commands + symbols + text


@pytest.mark.parametrize("lookup", [0, 0xFE], ids=["zig", "Apple"])
def test_what_a_mach_o_file_needs_and_has_is_found(lookup):
    file = script().macho(mach_o(lookup=lookup))
    assert file.needs == [("_malloc", "/usr/lib/libSystem.B.dylib"), ("_PyLong_Type", "dynamic lookup")]
    assert file.has == {"_PyInit__sardonyx"}
    assert file.oldest == (13, 0)
    assert file.libraries == ["/usr/lib/libSystem.B.dylib"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, []),
        ({"oldest": 14}, ["is for macOS (14, 0)"]),
        ({"library": b"/opt/lib/libfmt.dylib"}, ["needs /opt/lib/libfmt.dylib"]),
        ({"python": b"_PyUnknown"}, ["needs _PyUnknown"]),
        ({"python": b"_PyUnknown", "lookup": 0}, ["needs _PyUnknown"]),
        ({"entry": b"_other"}, ["has no PyInit__sardonyx"]),
    ],
)
def test_modules_that_macos_would_not_load_are_refused(change, said, tmp_path, monkeypatch):
    wheels = script()
    monkeypatch.setattr(wheels, "DEPS", tmp_path)
    (tmp_path / "abi3.def").write_text("LIBRARY python3.dll\nEXPORTS\n  PyLong_Type DATA\n")
    wheel = tmp_path / "sardonyx-0-cp312-abi3-macosx_13_0_arm64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("sardonyx/_sardonyx.abi3.so", mach_o(**change))
    assert wheels.macos_complaints(wheel) == [f"sardonyx/_sardonyx.abi3.so {text}" for text in said]


def test_tags_are_compared_by_number():
    newer = script().newer
    assert newer("manylinux_2_34_x86_64", "manylinux_2_28_x86_64")
    assert not newer("manylinux_2_5_x86_64", "manylinux_2_28_x86_64")
