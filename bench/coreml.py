"""Core ML's passes: Sardonyx beside coremltools, in one process.

    bench/coreml.py [--only NAME ...] [--scale 0.25] [--synthetic 8000] [--alone 100000] [--skip files|memory|passes] [--minutes 14] [--out build/bench]

On files, both load a package, run a pass (or coremltools' whole default pipeline) and write a package. In
memory, both work on a Program of coremltools. Chains of --alone ops run Sardonyx's default pipeline only,
since coremltools takes minutes. With --minutes, single passes for which no time is left are listed but not
measured. README.md in this folder explains the columns.
"""

import gc
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import coreml_programs as programs  # noqa: E402  (sets what coremltools reads when it is imported)
import coremltools as ct  # noqa: E402
from common import finish, parser  # noqa: E402
from coremltools import proto  # noqa: E402
from coremltools.converters.mil.frontend.milproto.load import load as load_program  # noqa: E402
from coremltools.converters.mil.mil.passes.pass_pipeline import PassPipeline, PassPipelineManager  # noqa: E402
from coremltools.converters.mil.mil.passes.pass_registry import PASS_REGISTRY  # noqa: E402
from sardonyx import _sardonyx, coreml  # noqa: E402

# Conversion to half precision runs only on request.
APART = ("common::add_fp16_cast", "common::add_int16_cast")
FILES, MEMORY = 20.0, 5.0  # times faster, at least
# Below this, the clock is too coarse for a single pass.
SHORT = 2e-4


class Clock:
    """Whether there is time for single passes. Each program leaves a share of the remaining time to the
    programs after it."""

    def __init__(self, minutes: float, shares: int):
        self.end = time.monotonic() + 60 * minutes if minutes else None
        self.shares = shares
        self.until = None

    def next_share(self) -> None:
        if self.end is not None:
            now = time.monotonic()
            self.until = now + max(0.0, self.end - now) / max(1, self.shares)
        self.shares -= 1

    def is_late(self) -> bool:
        return self.until is not None and time.monotonic() > self.until


def seconds(work, *args) -> float:
    """Processor time: what one thread takes on an idle machine."""
    gc.collect()
    gc.disable()
    start = time.process_time()
    work(*args)
    elapsed = time.process_time() - start
    gc.enable()
    return elapsed


def pipeline() -> PassPipeline:
    default = PassPipeline()
    default.remove_passes(set(APART))
    return default


def names_in_order() -> list[str]:
    ours = {p["name"] for p in _sardonyx.list_passes() if p["dialect"] == "mil"}
    return [p.partition("::")[2] for p in pipeline().passes if p.partition("::")[2] in ours]


# ---- coremltools on files


def load(package: Path):
    spec = proto.Model_pb2.Model()
    spec.ParseFromString((package / "Data/com.apple.CoreML/model.mlmodel").read_bytes())
    return load_program(spec, spec.specificationVersion, str(package / "Data/com.apple.CoreML/weights"))


def save(prog, package: Path) -> None:
    shutil.rmtree(package, ignore_errors=True)
    model = ct.convert(
        prog,
        convert_to="mlprogram",
        minimum_deployment_target=programs.TARGET,
        pass_pipeline=PassPipeline.EMPTY,
        skip_model_load=True,
    )
    model.save(str(package))


# ---- what is measured


def in_memory(build, each: bool, clock: Clock) -> dict:
    theirs, ours = build(), build()
    result = {"ops": len(list(theirs.functions["main"].operations)), "passes": [], "no time": []}
    coreml.apply_pass(programs.program("mobilenet", 0.25), "const_elimination")  # tables that are built once
    for name in names_in_order() if each else ():
        if clock.is_late():
            result["no time"].append(name)
            continue
        one = PASS_REGISTRY[f"common::{name}"]
        a = seconds(one, theirs)
        b = seconds(coreml.apply_pass, ours, name)
        result["passes"].append({"name": name, "theirs": a, "ours": b})
    theirs, ours = build(), build()
    a = seconds(PassPipelineManager.apply_pipeline, theirs, pipeline())
    with coreml.native_passes():
        b = seconds(PassPipelineManager.apply_pipeline, ours, pipeline())
    result |= {"theirs": a, "ours": b}
    result["same ops"] = [
        [op.op_type for op in p.functions["main"].operations if op.op_type != "const"] for p in (theirs, ours)
    ]
    result["same ops"] = result["same ops"][0] == result["same ops"][1]
    return result


def copying(source: Path, target: Path) -> float:
    """Processor time of `cp`: what copying the bytes takes, where the file system cannot share them."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["cp", "-r", source, target], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    shutil.rmtree(target)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def fresh(package: Path) -> None:
    """Deletes an existing package before timing: deleting a file of weights can take as long as writing it."""
    shutil.rmtree(package, ignore_errors=True)


def size_of(package: Path) -> int:
    return sum(f.stat().st_size for f in package.rglob("*") if f.is_file())


def on_files(build, each: bool, folder: Path, clock: Clock) -> dict:
    source, target = folder / "in.mlpackage", folder / "out.mlpackage"
    copied = folder / "copy.mlpackage"
    save(build(), source)
    held = []
    loading = seconds(lambda: held.append(load(source)))
    prog = held.pop()
    result = {
        "bytes": size_of(source),
        "cp": min(copying(source, copied) for _ in range(3)),
        "load": loading,
        "passes": [],
        "no time": [],
    }
    saving = result["save"] = seconds(save, prog, target)
    prog = load(source)
    saved, cp = {}, {}  # by pass: some make the package larger
    for name in names_in_order() if each else ():
        if clock.is_late():
            result["no time"].append(name)
            continue
        one = PASS_REGISTRY[f"common::{name}"]
        a = loading + seconds(one, prog)
        fresh(target)
        b = seconds(lambda name=name: coreml.optimize(source, target, passes=[f"common::{name}"]))
        if name not in saved:
            saved[name], cp[name] = saving, result["cp"]
            if size_of(target) > 1.01 * result["bytes"]:
                changed = load(source)
                one(changed)
                saved[name] = seconds(save, changed, copied)
                cp[name] = min(copying(target, folder / "again.mlpackage") for _ in range(3))
                shutil.rmtree(copied)
                del changed
        fresh(target)
        linked = seconds(
            lambda name=name: coreml.optimize(source, target, passes=[f"common::{name}"], link_weights=True)
        )
        result["passes"].append({"name": name, "theirs": a + saved[name], "ours": b, "cp": cp[name], "linked": linked})
    del prog
    fresh(target)

    def their_pipeline():
        prog = load(source)
        PassPipelineManager.apply_pipeline(prog, pipeline())
        save(prog, target)

    result["theirs"] = seconds(their_pipeline)
    fresh(target)
    result["ours"] = seconds(coreml.optimize, source, target)
    fresh(target)
    result["linked"] = seconds(lambda: coreml.optimize(source, target, link_weights=True))
    return result


def least(r: dict, what: str) -> list[dict]:
    """Passes, the smallest gain first."""
    return sorted(r["passes"], key=lambda p: p["theirs"] / p[what])


def alone(ops: int, folder: Path) -> dict:
    """Sardonyx's default pipeline, without running coremltools'."""
    name = f"synthetic-{ops}"
    coreml.apply_pass(programs.program("mobilenet", 0.25), "const_elimination")  # tables that are built once
    prog = programs.program(name)
    count = len(list(prog.functions["main"].operations))
    source, target = folder / "in.mlpackage", folder / "out.mlpackage"
    save(prog, source)
    with coreml.native_passes():
        memory = seconds(PassPipelineManager.apply_pipeline, prog, pipeline())
    files = seconds(coreml.optimize, source, target)
    print(
        f"{name:18} {'alone':7} {count:>7} ops   {1e6 * memory / count:.1f} us per op in memory, {1e6 * files / count:.1f} on files",
        flush=True,
    )
    return {"ops": count, "memory": memory, "files": files}


def show(name: str, kind: str, r: dict, bound: float, missed: list[str]) -> None:
    ratio = r["theirs"] / r["ours"]
    slowest = least(r, "ours")[:3]
    size = f"{r['ops']} ops" if "ops" in r else f"{r['bytes'] / 1e6:.0f} MB"
    print(f"{name:18} {kind:7} {size:>11} {r['theirs']:9.3f} s {r['ours']:9.4f} s {ratio:7.1f} x", end="   ")
    print(", ".join(f"{p['name']} {p['theirs'] / p['ours']:.1f} x" for p in slowest), flush=True)
    if "cp" in r:
        print(f"{'':18} {'cp':7} {'':>11} {'':11} {r['cp']:9.4f} s {r['theirs'] / r['cp']:7.1f} x")
        print(
            f"{'':18} {'linked':7} {'':>11} {'':11} {r['linked']:9.4f} s {r['theirs'] / r['linked']:7.1f} x", end="   "
        )
        print(", ".join(f"{p['name']} {p['theirs'] / p['linked']:.1f} x" for p in least(r, "linked")[:3]))
    if r["no time"]:
        print(
            f"{'':18} {kind:7} no time was left for {len(r['no time'])} passes: {', '.join(r['no time'])}", flush=True
        )

    def beside_cp(of: dict) -> str:
        return f" (cp alone: {of['theirs'] / of['cp']:.1f})" if "cp" in of else ""

    if ratio < bound:
        missed.append(f"{name}, {kind}: the pipeline is {ratio:.1f} times faster, not {bound:.0f}{beside_cp(r)}")
    wanted = bound if kind == "files" else 1.0
    for p in r["passes"]:
        if p["theirs"] < wanted * p["ours"] and p["ours"] > SHORT:
            ratio = p["theirs"] / p["ours"]
            linked = f", with --link-weights {p['theirs'] / p['linked']:.1f}" if "linked" in p else ""
            missed.append(
                f"{name}, {kind}: {p['name']} is {ratio:.1f} times faster, not {wanted:.0f}{beside_cp(p)}{linked}"
            )
    if not r.get("same ops", True):
        missed.append(f"{name}, {kind}: the ops are not coremltools'")


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", metavar="NAME", help="networks: " + ", ".join(programs.NETWORKS))
    options.add_argument("--alone", nargs="*", type=int, metavar="OPS", default=[], help="chains for Sardonyx only")
    options.add_argument("--synthetic", nargs="*", type=int, metavar="OPS", default=[8000], help="(8000)")
    options.add_argument(
        "--scale", type=float, default=1.0, help="of the networks' channels, where memory is tight (1)"
    )
    options.add_argument(
        "--minutes",
        type=float,
        default=0,
        help="for all of it: single passes are left out when time is short (0: none is)",
    )
    options.add_argument("--skip", nargs="+", choices=("files", "memory", "passes"), default=())
    args = options.parse_args()
    names = args.only if args.only is not None else [*programs.NETWORKS, *(f"synthetic-{n}" for n in args.synthetic)]
    clock = Clock(args.minutes, 2 * len(names))
    print(f"{'':18} {'':7} {'':>11} {'coremltools':>11} {'Sardonyx':>11} {'faster':>9}   passes with the least gain")
    results, missed = {}, []
    for name in names:

        def build(name=name):
            return programs.program(name, args.scale)

        result = results[name] = {}
        each = "passes" not in args.skip
        clock.next_share()
        if "memory" not in args.skip:
            result["memory"] = in_memory(build, each, clock)
            show(name, "memory", result["memory"], MEMORY, missed)
        clock.next_share()
        if "files" not in args.skip:
            with tempfile.TemporaryDirectory() as folder:
                result["files"] = on_files(build, each, Path(folder), clock)
            show(name, "files", result["files"], FILES, missed)
    sizes = []
    for ops in args.alone:
        with tempfile.TemporaryDirectory() as folder:
            sizes.append(alone(ops, Path(folder)))
    return finish(args.out, "coreml", {"scale": args.scale, "programs": results, "alone": sizes}, missed)


if __name__ == "__main__":
    sys.exit(main())
