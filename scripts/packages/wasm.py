"""Make the npm package of the command as WebAssembly, and try it in Node and in a headless Chromium.

    scripts/packages/wasm.py build    compile, and pack dist/sardonyx-VERSION.tgz
    scripts/packages/wasm.py test     in Node, in Chromium on a page, and with a model of 300 MB beside the native command

The compiler and the C and C++ libraries are zig's: scripts/packages/wheels.py prepare.
"""

import argparse
import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import wheels
from wheels import DEPS, DIST, ROOT, WORK, run, say

FOLDER = WORK / "wasm"
SOURCES = ROOT / "packaging" / "npm"
PACKAGE = WORK / "npm" / "package"
SIZE_LIMIT = 3_000_000
SLOWER_LIMIT = 3.0
BIG = 300_000_000


def build() -> None:
    wheels.prepare()
    if not (FOLDER / "build.ninja").exists():
        say("configuring wasm")
        run(
            "cmake", "-G", "Ninja", "-S", ROOT, "-B", FOLDER, f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/toolchains/wasm.cmake",
            f"-DSARDONYX_ZIG={WORK / 'zig'}", f"-DSARDONYX_ZIG_LIB={wheels.zig_folder() / 'lib'}", f"-DSARDONYX_DEPS={DEPS}",
            "-DSARDONYX_PYTHON=OFF", "-DSARDONYX_TESTS=OFF", "-DSARDONYX_PCH=ON", "-DCMAKE_BUILD_TYPE=Release",
            "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG", f"-DCMAKE_CXX_COMPILER_LAUNCHER={wheels.launcher()}",
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
    wheels.ninja(FOLDER, "sardonyx_cli")
    pack()


def pack() -> None:
    shutil.rmtree(PACKAGE, ignore_errors=True)
    PACKAGE.mkdir(parents=True)
    for name in json.loads((SOURCES / "package.json").read_text())["files"]:
        from_here = {"sardonyx.wasm": FOLDER / "sardonyx.wasm", "LICENSE": ROOT / "LICENSE"}.get(name, SOURCES / name)
        shutil.copy(from_here, PACKAGE)
    shutil.copy(SOURCES / "package.json", PACKAGE)
    DIST.mkdir(exist_ok=True)
    archive = DIST / f"sardonyx-{wheels.version()}.tgz"
    run("tar", "-C", PACKAGE.parent, "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=2020-01-01",
        "-I", "gzip -9n", "-cf", archive, "package")  # fmt: skip
    size = archive.stat().st_size
    say(f"{archive.name}: {size / 1e6:.2f} MB")
    if size > SIZE_LIMIT:
        raise SystemExit(f"error: the npm package has {size} bytes, more than {SIZE_LIMIT}")


def big_model(path: Path) -> None:
    """`path` gets a model of BIG bytes: eight matrix products of which half are undone by transposes, and dead weights."""
    import numpy as np

    sys.path.insert(0, str(ROOT / "build" / "release" / "python"))
    from sardonyx import ir

    layers = 8
    n = int((BIG / 4 / layers) ** 0.5) | 1
    rng = np.random.default_rng(7)
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([3, n]))
    nodes, initializers, at = [], [], x
    for i in range(layers):
        w = ir.Value(name=f"w{i}", const_value=ir.tensor(rng.standard_normal((n, n), np.float32), name=f"w{i}"))
        initializers.append(w)
        for op, inputs in (
            ("MatMul", [w]),
            ("Neg", []),
            ("Neg", []),
            ("Transpose", []),
            ("Transpose", []),
            ("Tanh", []),
        ):
            attributes = [ir.AttrInt64s("perm", [1, 0])] if op == "Transpose" else []
            node = ir.Node("", op, [at, *inputs], attributes)
            nodes.append(node)
            at = node.outputs[0]
    at.name = "y"
    graph = ir.Graph([x], [at], nodes=nodes, initializers=initializers, name="g", opset_imports={"": 20})
    ir.save(ir.Model(graph, ir_version=10), path)


class Page(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; POST /result ends the run."""

    def log_message(self, *_):
        pass

    def end_headers(self):
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def do_POST(self):
        self.server.result = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        self.server.done.set()


def in_chromium(folder: Path, page: str, seconds: float = 240) -> dict:
    """Opens folder/page in a headless Chromium and returns what it posts to /result."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Page, directory=folder))
    server.done = threading.Event()
    server.result = None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as profile:
        browser = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={profile}",
             "--no-first-run", f"http://127.0.0.1:{server.server_port}/{page}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            if not server.done.wait(seconds):
                raise SystemExit(f"error: {page} did not finish within {seconds} s")
        finally:
            browser.terminate()
            browser.wait()
            server.shutdown()
    return server.result


def native(model: Path, out: Path) -> float:
    begin = time.perf_counter()
    run(ROOT / "build" / "release" / "sardonyx", "optimize", model, "-o", out, "--quiet")
    return time.perf_counter() - begin


def test() -> int:
    if not PACKAGE.exists():
        raise SystemExit("error: there is no package yet: scripts/packages/wasm.py build")
    done = run(
        "node", "--test", ROOT / "tests" / "npm", check=False, env=os.environ | {"SARDONYX_PACKAGE": str(PACKAGE)}
    )
    bad = done.returncode != 0
    with tempfile.TemporaryDirectory(dir=WORK) as name:
        folder = Path(name)
        shutil.copytree(PACKAGE, folder / "package")
        shutil.copytree(SOURCES / "page", folder / "package" / "page")
        shutil.copy(ROOT / "tests" / "npm" / "browser.html", folder)
        big_model(folder / "big.onnx")
        native(folder / "big.onnx", folder / "native.onnx")
        seconds = min(native(folder / "big.onnx", folder / "native.onnx") for _ in range(3))
        found = in_chromium(folder, "browser.html")
        say(json.dumps(found))
        if found.get("failed"):
            return 1
        # Chromium reads a file slower than the system does, and no program in it can help that.
        own = (found["seconds"] - found["read"]) / seconds
        # The model's bytes are in the program's memory once; the rest is the program itself.
        extra = found["memory"] - (folder / "big.onnx").stat().st_size
        say(f"300 MB: native {seconds:.2f} s, Chromium {found['seconds']:.2f} s ({found['seconds'] / seconds:.1f} times), of which "
            f"{found['read']:.2f} s are its own for reading the file; memory beside the model {extra / 1e6:.0f} MB")  # fmt: skip
        bad |= own > SLOWER_LIMIT or extra > 64e6
    return int(bad)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("step", choices=["build", "test"])
    step = parser.parse_args().step
    WORK.mkdir(parents=True, exist_ok=True)
    if step == "test":
        return test()
    build()
    return 0


if __name__ == "__main__":
    sys.exit(main())
