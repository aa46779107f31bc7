"""Check the sources: clang-format, ruff, layers, sizes, clang-tidy.

    scripts/checks/lint.py            all of it; clang-tidy on files that differ from the main branch
    scripts/checks/lint.py --fix      let clang-format and ruff rewrite what they can

TIDY=all in the environment runs clang-tidy on every source. build/tidy remembers each file that passed by the
hash of everything it includes from this project, and skips it until that changes.
"""

import ast
import graphlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Container
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sizes

ROOT = Path(__file__).resolve().parents[2]
TIDY_BUILD = ROOT / "build" / "tidy"
CXX_FOLDERS = ("bench", "include", "cli", "python", "src", "tests")
COMMENT_WIDTH = 110


def run(*command: object, quiet: bool = False) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(c) for c in command], cwd=ROOT, text=True, check=False, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if quiet else None, stderr=subprocess.STDOUT if quiet else None,
    )  # fmt: skip


def git_files(*arguments: str) -> list[str]:
    done = run("git", *arguments, quiet=True)
    return done.stdout.split("\0")[:-1] if done.returncode == 0 else []


def cxx_files() -> list[str]:
    files = git_files("ls-files", "-z", "--cached", "--others", "--exclude-standard", *CXX_FOLDERS)
    return sorted({f for f in files if f.endswith((".h", ".cc")) and (ROOT / f).exists()})


def is_generated(file: str) -> bool:
    """Whether a program writes the file and decides its format."""
    with open(ROOT / file, encoding="utf-8") as stream:
        return "Written by scripts/tables/" in stream.readline()


def clang_format(fix: bool) -> bool:
    files = [f for f in cxx_files() if not is_generated(f)]
    print(f"clang-format: {len(files)} files")
    mode = ["-i"] if fix else ["--dry-run", "-Werror"]
    return run("clang-format-19", *mode, *files).returncode == 0


# The layers that each layer may include, besides itself and the public headers. python/native/jax lowers
# equations too; passes run through `driver`.
LAYERS = {
    "support": [],
    "ir": ["support"],
    "dialects": ["support", "ir"],
    "eval": ["support", "ir", "dialects"],
    "rewrite": ["support", "ir", "dialects", "eval"],
    "passes": ["support", "ir", "dialects", "eval", "rewrite"],
    "lower": ["support", "ir", "dialects"],
    "io": ["support", "ir", "dialects"],
    "inspect": ["support", "ir", "dialects", "eval", "rewrite", "passes", "io"],
    "convert": ["support", "ir", "dialects", "eval", "rewrite", "passes", "lower", "io", "inspect"],
    "view": ["support", "ir", "dialects", "rewrite", "io", "inspect", "convert"],
    "python": ["support", "ir", "dialects", "lower", "io", "inspect", "convert", "view"],
    "cli": ["support", "ir", "dialects", "io", "inspect", "convert", "view"],
}
# The same inside python/native.
NATIVE_LAYERS = {
    "ir": [],
    "jax": ["ir"],
    "coreml": ["ir"],
}


# Headers that only some of these layers may include: file data beside the graph is not for passes.
KEPT_FROM_OTHERS = {"ir/graph/file_record.h": ["ir", "io", "inspect", "convert"]}


def layers() -> bool:
    """Checks that includes only go down the layers of docs/inside/architecture.md. Tests may include anything."""
    good = True
    for file in cxx_files():
        parts = Path(file).parts
        if parts[0] not in ("src", "python", "cli") or file.endswith("_test.cc"):
            continue
        layer = parts[1] if parts[0] == "src" else parts[0]
        if layer not in LAYERS:
            print(f"{file}: '{layer}' is no layer: see LAYERS in scripts/checks/lint.py")
            good = False
            continue
        subject = parts[2] if parts[:2] == ("python", "native") and len(parts) > 3 else None
        for number, line in enumerate((ROOT / file).read_text(encoding="utf-8").splitlines(), 1):
            found = re.match(r'\s*#\s*include\s+"(native/)?((\w+)/[^"]+)"', line)
            if not found:
                continue
            table, place = (NATIVE_LAYERS, subject) if found[1] else (LAYERS, layer)
            if place and found[3] in table and found[3] not in [place, *table[place]]:
                print(f"{file}:{number}: {place} may not use {found[3]}")
                good = False
            if layer not in KEPT_FROM_OTHERS.get(found[2], [layer]):
                print(f"{file}:{number}: {layer} may not use {found[2]}")
                good = False
    return python_layers(ROOT / "python" / "sardonyx") and good


def python_layers(package: Path) -> bool:
    """Checks that no modules of the package import each other in a circle, and no packages in it. An import inside a
    function counts, one for type checkers only does not."""
    modules = {}
    for file in package.rglob("*.py"):
        parts = file.relative_to(package.parent).with_suffix("").parts
        modules[".".join(parts).removesuffix(".__init__")] = file
    by_module = {name: python_imports(file, modules) - {name} for name, file in modules.items()}
    by_package: dict[str, set[str]] = {}
    for name, used in by_module.items():
        here = ".".join(name.split(".")[:2])
        by_package.setdefault(here, set()).update(".".join(u.split(".")[:2]) for u in used)
        by_package[here].discard(here)
    for graph in (by_module, by_package):
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as e:
            print(f"a circle of imports: {' <- '.join(e.args[1])}")
            return False
    return True


def python_imports(file: Path, modules: Container[str]) -> set[str]:
    """Those of the modules that a file imports."""
    found = set()
    todo: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        todo += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {
                name if name in modules else str(node.module) for name in inner if not name.endswith("._sardonyx")
            }
    return {name for name in found if name in modules}


def named_fields() -> bool:
    """Checks that fields of protobuf messages have names. wire::field() is for the generated headers."""
    good = True
    for file in cxx_files():
        if not file.startswith(("src/", "python/", "cli/")) or file.endswith("_test.cc") or is_generated(file):
            continue
        if file in ("src/io/wire.h", "src/io/onnx/test_messages.h"):
            continue
        for number, line in enumerate((ROOT / file).read_text(encoding="utf-8").splitlines(), 1):
            if re.search(r"\bwire::field\(|\bField\{|\bField\(\w", line):
                print(f"{file}:{number}: name the field as io/onnx/fields_onnx.h and io/coreml/fields_coreml.h do")
                good = False
    return good


def comments_are_short() -> bool:
    """Checks that comments wrap where CONTRIBUTING.md says. Pictures, tables and addresses do not wrap."""
    good = True
    for file in cxx_files():
        if is_generated(file):
            continue
        for number, line in enumerate((ROOT / file).read_text(encoding="utf-8").splitlines(), 1):
            text = line.strip()
            if len(line) <= COMMENT_WIDTH or not text.startswith("// ") or re.search(r"──|=>|│|----|  |https?:", text):
                continue
            print(f"{file}:{number}: a comment of {len(line)} columns, and {COMMENT_WIDTH} are the limit")
            good = False
    return good


def ruff(fix: bool) -> bool:
    python = Path(sys.executable).parent / "ruff"
    tool = python if python.exists() else "ruff"
    print("ruff: check, format")
    checked = run(tool, "check", "-q", *(["--fix"] if fix else []), ".").returncode == 0
    formatted = run(tool, "format", "-q", *([] if fix else ["--diff"]), ".").returncode == 0
    return checked and formatted


def mypy() -> bool:
    tool = Path(sys.executable).parent / "mypy"
    if not tool.exists():
        print("mypy: skipped, it is not installed (requirements-dev.txt)")
        return True
    print("mypy: types of the Python package")
    return run(tool, "--no-error-summary", "--cache-dir", ROOT / "build" / "mypy").returncode == 0


def changed_files() -> set[str]:
    """Files that differ from where this branch left main; on main itself, those of the last commit."""
    head = run("git", "rev-parse", "HEAD", quiet=True).stdout.strip()
    for base in ("origin/main", "main", "origin/HEAD"):
        done = run("git", "merge-base", "HEAD", base, quiet=True)
        if done.returncode == 0 and done.stdout.strip() != head:
            start = done.stdout.strip()
            break
    else:
        start = "HEAD~1"
    changed = git_files("diff", "-z", "--name-only", start)
    return set(changed) | set(git_files("ls-files", "-z", "--others", "--exclude-standard"))


def includes(path: Path, seen: dict[Path, bytes]) -> None:
    """Collect the contents of `path` and of all project files it includes."""
    todo = [path]
    while todo:
        file = todo.pop()
        if file in seen:
            continue
        seen[file] = file.read_bytes()
        for name in re.findall(rb'^\s*#\s*include\s+"([^"]+)"', seen[file], re.MULTILINE):
            for folder in (file.parent, ROOT / "src", ROOT / "include", ROOT / "python", ROOT):
                candidate = folder / name.decode()
                if candidate.exists():
                    todo.append(candidate.resolve())
                    break


def fingerprint(path: Path) -> str:
    seen: dict[Path, bytes] = {}
    includes(path, seen)
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for file in sorted(seen):
        digest.update(str(file).encode() + b"\0" + seen[file])
    return digest.hexdigest()


def clang_tidy() -> bool:
    if not (ROOT / ".clang-tidy").exists():
        return True
    commands = TIDY_BUILD / "compile_commands.json"
    TIDY_BUILD.mkdir(parents=True, exist_ok=True)
    configured = run("cmake", "--preset", "tidy", quiet=True)
    if configured.returncode:
        print(configured.stdout)
        return False
    sources = sorted(
        {Path(e["file"]) for e in json.loads(commands.read_text()) if Path(e["file"]).is_relative_to(ROOT)}
    )
    sources = [s for s in sources if not s.is_relative_to(ROOT / "build") and ".venv" not in s.parts]
    changed = None if os.environ.get("TIDY") == "all" else {(ROOT / f).resolve() for f in changed_files()}
    passed_dir = TIDY_BUILD / "passed"
    passed_dir.mkdir(exist_ok=True)
    todo = []
    for source in sources:
        if changed is not None and source.resolve() not in changed:
            continue
        stamp = passed_dir / fingerprint(source)
        if not stamp.exists():
            todo.append((source, stamp))
    print(f"clang-tidy: {len(todo)} of {len(sources)} sources")

    def check(item: tuple[Path, Path]) -> bool:
        source, stamp = item
        # The commands are gcc's, and libstdc++ itself uses deprecated names.
        done = run(
            "clang-tidy-19", "-p", TIDY_BUILD, "--quiet", "--warnings-as-errors=*",
            "--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-deprecated-declarations", source, quiet=True,
        )  # fmt: skip
        if done.returncode:
            print(re.sub(r"^\d+ warnings? (generated|treated).*\n", "", done.stdout, flags=re.MULTILINE), end="")
            return False
        stamp.touch()
        return True

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return all(list(pool.map(check, todo)))


def main() -> int:
    fix = "--fix" in sys.argv[1:]
    missing = [t for t in ("clang-format-19", "clang-tidy-19") if not shutil.which(t)]
    if missing:
        print(f"error: {', '.join(missing)} not found: run 'make lint', which installs what it needs")
        return 1
    good = clang_format(fix)
    good = ruff(fix) and good
    if not fix:
        good = mypy() and good
        good = layers() and good
        good = named_fields() and good
        good = comments_are_short() and good
        good = sizes.main() == 0 and good
        good = clang_tidy() and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
