"""Write docs/generated/benchmarks.md and its plots from the benchmarks' results.

bench/page.py [--out build/bench]
"""

import json
import math
import statistics
import sys
from pathlib import Path

from common import ROOT, parser
from plots import bars

PAGE = ROOT / "docs" / "generated" / "benchmarks.md"
PLOTS = ROOT / "docs" / "generated" / "benchmarks"
BUSY = 1.5  # load above which times are unreliable
COUNTS = ("nodes", "instructions")  # independent of the load


def table(heads: list[str], rows: list[list[object]]) -> list[str]:
    if not rows:
        return []
    lines = [
        "| " + " | ".join(heads) + " |",
        "|" + "|".join("---" if i == 0 else "--:" for i in range(len(heads))) + "|",
    ]
    return [*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows), ""]


def mean(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


def milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:,.0f} ms"


# ---- a section for each benchmark: its text and tables, from its results
# ---------------------------------------------


def convert(results: dict) -> list[str]:
    rows, groups, faster = [], {}, []
    for name, r in results["models"].items():
        ours, theirs = r["sardonyx"], r.get("jax2onnx", {})
        if "error" in ours:
            rows.append([name, ours["error"]])
            continue
        ratio = theirs["total"] / ours["total"] if "total" in theirs else None
        groups[name] = {"trace alone": r["trace"], "sardonyx": ours["total"]}
        if ratio:
            groups[name]["jax2onnx"] = theirs["total"]
            faster.append(ratio)
        rows.append(
            [
                name,
                milliseconds(r["trace"]),
                f"{ours['ratio']:.2f}",
                milliseconds(ours["total"]),
                milliseconds(theirs.get("total")) or theirs.get("error", "")[:60],
                f"{ratio:.1f}" if ratio else "",
                f"{ours['growth'] / r['weights']:.3f}" if r["weights"] else "",
            ]
        )
    plot = bars(PLOTS / "convert.svg", "From a JAX function to a file, first export of a process", "seconds", groups)
    heads = ["model", "trace", "after it / trace", "in all", "jax2onnx", "times faster", "memory / weights"]
    said = [f"Geometric mean: {mean(faster):.1f} times faster than jax2onnx, tracing included.", ""] if faster else []
    return [*table(heads, rows), *said, *plot]


def equations(results: list) -> list[str]:
    rows = []
    for r in results:
        after = sum(s for stage, s in r["stages"].items() if stage != "trace")
        rows.append([f"{r['equations']:,}", f"{r['nodes']:,}", f"{r['stages']['trace']:.2f} s", f"{after:.2f} s"])
        rows[-1].append(f"{1e6 * after / r['equations']:.1f} us")
    return table(["equations", "nodes", "trace", "after it", "after it, each"], rows)


def nodes(results: dict) -> list[str]:
    rows, fewer, equal, more, refused, groups = [], 0, 0, 0, 0, {}
    for name, ours in results["sardonyx"].items():
        theirs = results["jax2onnx"].get(name, {})
        a, b = ours.get("nodes"), theirs.get("nodes")
        other = any(op.startswith("Random") for op in theirs.get("ops", ()))
        refused += b is None
        if a is not None and b is not None and not other:
            fewer, equal, more = fewer + (a < b), equal + (a == b), more + (a > b)
            groups[name] = {"sardonyx": a, "jax2onnx": b}
        rows.append([name, a or "fails", "refused" if b is None else f"{b} (other random numbers)" if other else b])
    said = (
        f"Of {len(rows)} models Sardonyx makes fewer nodes of {fewer}, as many of {equal}, more of {more}; "
        f"jax2onnx refuses {refused} with these inputs."
    )
    plot = bars(PLOTS / "nodes.svg", "Nodes of exported models", "nodes", groups, log=True)
    return [said, "", *table(["model", "Sardonyx", "jax2onnx"], rows), *plot]


def optimize(results: dict) -> list[str]:
    tools = list(dict.fromkeys(t for r in results.values() for t in r["tools"] if t != "before"))
    out: list[str] = []
    for what, title, show in (
        ("nodes", "Nodes that are left", lambda v: f"{v}"),
        ("seconds", "Processor time, reading and writing included", milliseconds),
        ("run", "Processor time of the result in onnxruntime, one thread", lambda v: f"{1e3 * v:,.1f} ms"),
        ("growth", "Memory at the peak", lambda v: f"{v / 1e6:,.0f} MB"),
    ):
        rows, ratios = [], {t: [] for t in tools}
        for name, r in results.items():
            row: list[object] = [name]
            if what in ("nodes", "run"):
                row.append(
                    r["before"]
                    if what == "nodes"
                    else show(r["tools"]["before"]["run"])
                    if "before" in r["tools"]
                    else ""
                )
            ours = r["tools"].get("sardonyx", {}).get(what)
            for t in tools:
                v = r["tools"].get(t, {}).get(what)
                row.append("fails" if v is None else show(v))
                if v and ours:
                    ratios[t].append(v / ours)
            rows.append(row)
        first = ["**times Sardonyx's** (geometric mean)"] + ([""] if what in ("nodes", "run") else [])
        rows.append([*first, *(f"{mean(ratios[t]):.2f}" if ratios[t] else "" for t in tools)])
        heads = ["model", *(["before"] if what in ("nodes", "run") else []), *tools]
        out += [f"**{title}**", "", *table(heads, rows)]
        if what in ("nodes", "seconds"):
            groups = {
                n: {t: r["tools"][t][what] for t in tools if what in r["tools"].get(t, {})} for n, r in results.items()
            }
            if what == "nodes":
                groups = {n: {t: v / results[n]["before"] for t, v in g.items()} for n, g in groups.items()}
            unit = "share of the nodes before" if what == "nodes" else "seconds"
            out += bars(PLOTS / f"optimize_{what}.svg", title, unit, groups, log=what == "seconds")
    return out


def coreml(results: dict) -> list[str]:
    rows, groups = [], {}
    for name, r in results["programs"].items():
        for kind, k in r.items():
            size = f"{k['ops']} ops" if "ops" in k else f"{k['bytes'] / 1e6:,.0f} MB"
            ratio = k["theirs"] / k["ours"]
            groups.setdefault(name, {})["in memory" if kind == "memory" else "on files"] = ratio
            for what, ours in (("", "ours"), (", weights shared", "linked")):
                if ours not in k:
                    continue
                slow = min(k["passes"], key=lambda p, ours=ours: p["theirs"] / p[ours], default=None)
                least = f"{slow['name']} {slow['theirs'] / slow[ours]:.1f}" if slow else ""
                measured = len(k["passes"]) + len(k.get("no time", []))
                count = f"{len(k['passes'])} of {measured}" if k["passes"] else ""
                cp = f"{k['theirs'] / k['cp']:.1f}" if "cp" in k else ""
                times = [f"{k['theirs']:.3f} s", f"{k[ours]:.4f} s", f"{k['theirs'] / k[ours]:.1f}", cp]
                rows.append([name, kind + what, size, *times, least, count])
    plot = bars(PLOTS / "coreml.svg", "coremltools' default pipeline: how many times faster", "times", groups, log=True)
    heads = ["program", "on", "size", "coremltools", "Sardonyx", "times faster", "`cp` of the package"]
    heads += ["pass with the least gain", "passes timed"]
    said = (
        f"Channels are {results['scale']:g} of the networks' own. On files, reading and writing are in both; `cp` is how many times faster "
        "copying the package alone would be; weights are shared with `--link-weights`."
    )
    sizes = [
        [f"{s['ops']:,}", *(f"{s[k]:.3f} s, {1e6 * s[k] / s['ops']:.1f} us" for k in ("memory", "files"))]
        for s in results.get("alone", [])
    ]
    sizes = table(["ops of a chain", "in memory: Sardonyx, of each op", "on files: Sardonyx, of each op"], sizes)
    return [said, "", *table(heads, rows), *sizes, *plot]


def scale(results: dict) -> list[str]:
    rows = []
    for name, r in results["graphs"].items():
        kind, count = name.split()
        rows.append([kind, f"{int(count):,}", f"{r['cpu']:.3f} s", f"{1e6 * r['cpu'] / int(count):.2f} us"])
        rows[-1] += [f"{r['peak'] / 1e6:,.0f} MB"]
    out = table(["graph", "nodes", "processor time", "each", "memory"], rows)
    if "large" in results:
        large = results["large"]
        s = large["seconds"]
        out += [
            f"{large['bytes'] / 1e9:.1f} GB of weights: `cp` {s['cp']:.2f} s, read and written {s['none']:.2f} s "
            f"({s['none'] / s['cp']:.2f} times), with the default passes {s['onnx']:.2f} s ({s['onnx'] / s['cp']:.2f} times); "
            f"{large['anonymous onnx'] / 1e6:.0f} MB of anonymous memory.",
            "",
        ]
    return out


def instructions(results: dict) -> list[str]:
    before = results["before"]
    rows = [
        [name, f"{n:,}", f"{n / before[name] - 1:+.1%}" if before.get(name) else ""]
        for name, n in results["counts"].items()
    ]
    built = results["built"]
    said = f"Built by {built['compiler']} with `{built['flags']}` on {built['machine']}; noise-free, so 5 % more is a miss."
    return [said, "", *table(["path", "instructions", "beside the kept count"], rows)]


SECTIONS = {
    "convert": ("From JAX to ONNX", convert),
    "equations": ("Large programs", equations),
    "nodes": ("Nodes of exported models", nodes),
    "optimize": ("Optimizing ONNX models", optimize),
    "coreml": ("Core ML's passes", coreml),
    "scale": ("Size", scale),
    "instructions": ("Instructions of the hot paths", instructions),
}


def sections_there() -> dict[str, list[str]]:
    """The lines of each section of the existing page, by title."""
    found: dict[str, list[str]] = {}
    for line in PAGE.read_text().splitlines() if PAGE.exists() else []:
        if line.startswith("## "):
            lines = found[line.removeprefix("## ")] = []
        elif found:
            lines.append(line)
    return found


def page(out: Path) -> str:
    """Keeps sections that were not measured again."""
    before = sections_there()
    lines = [
        "# Benchmarks",
        "",
        "`make bench` writes this page; do not edit it. [bench](../../bench/README.md) explains the columns and the measurements.",
        "",
    ]
    for name, (title, section) in SECTIONS.items():
        lines += [f"## {title}", ""]
        kept = out / f"{name}.json"
        if not kept.exists():
            lines += ["\n".join(before.get(title, [f"Not run: `bench/{name}.py`."])).strip(), ""]
            continue
        k = json.loads(kept.read_text())
        lines += [
            f"`bench/{' '.join(k['command'])}`, {k['date'][:16].replace('T', ' ')} UTC, commit {k['commit']}, load {k['load']:.1f}.",
            k["machine"],
            "",
        ]
        if k["load"] > BUSY and name not in COUNTS:
            lines += [
                "**Measured on a busy machine**: times and memory are unreliable; ratios and nodes are not affected.",
                "",
            ]
        lines += section(k["results"])
        lines += [f"- missed: {m}" for m in k["missed"]] + ([""] if k["missed"] else [])
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    arguments = parser(__doc__).parse_args()
    PAGE.write_text(page(arguments.out))
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
