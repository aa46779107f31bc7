"""Runs what `sx_test --write-models` and `sx_fuzz --write` wrote in onnxruntime, and holds one side of each case to the other.

    python tests/python/support/onnxruntime_cases.py FOLDER [FIRST]    judges the cases of the folder, from number FIRST on, a line of JSON each
    python tests/python/support/onnxruntime_cases.py --bless FOLDER    writes what the installed release refuses into the list, after a look at the diff

Judging runs as a process of its own, since some models end it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.defs
import onnxruntime as ort
from judge import NEWEST_OPSET, RUNTIME, TOLERANCE
from onnx import numpy_helper

IR_VERSION = 10  # all releases know it
LEVELS = (ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_ALL)

# Operators that onnxruntime computes exactly: the same in another order, layout or shape gives the same bits.
EXACT = set(
    """
    Abs Add And BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Clip Compress Concat Constant
    ConstantOfShape DepthToSpace Div Dropout Equal Expand Flatten Floor Gather GatherElements GatherND Greater GreaterOrEqual Identity If
    IsInf IsNaN Less LessOrEqual Loop Max MaxPool Min Mul Neg NonZero Not Or Pad Range Reciprocal Relu Reshape Round Scan Shape Sign
    Size Slice SpaceToDepth Split Sqrt Squeeze Sub Tile Transpose Trilu Unsqueeze Where Xor
    """.split()
)


def nodes_of(model: onnx.ModelProto):
    """All nodes, with those of bodies and functions."""
    stack = [model.graph.node, *(f.node for f in model.functions)]
    while stack:
        for node in stack.pop():
            yield node
            for a in node.attribute:
                stack += [a.g.node] if a.HasField("g") else [g.node for g in a.graphs]


def name_bodies(model: onnx.ModelProto) -> bool:
    """Names bodies that have no name, which onnxruntime refuses. Returns whether there were any."""
    unnamed = [a.g for n in nodes_of(model) for a in n.attribute if a.HasField("g") and not a.g.name]
    for graph in unnamed:
        graph.name = "body"
    return bool(unnamed)


def fitted(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with an opset that the installed release loads and in which its operators are the same, if
    there is one."""
    model.ir_version = min(model.ir_version, IR_VERSION)
    own = next((i.version for i in model.opset_import if i.domain == ""), 1)
    if own <= NEWEST_OPSET:
        return model
    names = {n.op_type for n in nodes_of(model) if n.domain == ""}

    def versions(opset: int) -> list:
        known = [onnx.defs.has(name, opset, "") and onnx.defs.get_schema(name, opset, "") for name in sorted(names)]
        return [schema and schema.since_version for schema in known]

    wanted = versions(min(own, onnx.defs.onnx_opset_version()))
    opset = next((v for v in range(NEWEST_OPSET, 6, -1) if versions(v) == wanted), NEWEST_OPSET)
    for imports in (model.opset_import, *(f.opset_import for f in model.functions)):
        for i in imports:
            if i.domain == "":
                i.version = opset
    return model


def is_known(model: onnx.ModelProto) -> bool:
    """Whether the opset has the operators. A case without an opset uses the newest, which an old release does
    not load."""
    opset = next((i.version for i in model.opset_import if i.domain == ""), 1)
    own = {f.name for f in model.functions if f.domain == ""}
    return all(
        onnx.defs.has(n.op_type, opset, "") or n.op_type in own or not onnx.defs.has(n.op_type, "")
        for n in nodes_of(model)
        if n.domain == ""
    )


def session_of(model: onnx.ModelProto, level) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


REASONS = (
    (r"Could not find an implementation for (\w+)\(", "no kernel of this {}"),
    (r"Failed to find kernel for (\w+)\(", "no kernel of this {}"),
    (r"opset|Opset", "an opset that it does not load"),
    (r"is not a registered function/op|not registered|No Op registered", "an operator that it does not know"),
    (r"outer scope value being returned directly", "a body that returns an outer value as it is"),
    (r"Unrecognized attribute: (\w+) for operator (\w+)", "{} of {} in another version"),
    (r"two nodes with same node name", "two nodes of one name"),
    (r"Numpy_type \d+ can't be converted", "inputs of a type that NumPy cannot hand over"),
    (r"Type ?Error|TypeInferenceError", "types that it refuses"),
    (r"ShapeInferenceError", "sizes that it refuses"),
    (r"Exception during initialization", "attributes that it refuses"),
)


def reason_of(error: Exception) -> str:
    """A short reason why onnxruntime refuses a model, which does not depend on the release."""
    for pattern, reason in REASONS:
        if found := re.search(pattern, str(error)):
            return reason.format(*found.groups())
    return "refused"


class Exactly:
    """Tolerances for the results of a case: none if the rule and the operators are exact."""

    def __init__(self, numerics: str, models: list[onnx.ModelProto]):
        self.numerics = numerics
        names = {n.op_type for m in models for n in nodes_of(m)}
        self.is_exact = numerics == "exact" and names <= EXACT
        self.keeps_zeros = "Where" not in names  # onnxruntime's Where gives 0 for a -0

    def difference(self, got, wanted, truth=None) -> str | None:
        if isinstance(wanted, list) or isinstance(got, list):
            if not isinstance(got, list) or not isinstance(wanted, list) or len(got) != len(wanted):
                return "a sequence has another length"
            return next((d for d in map(self.difference, got, wanted) if d), None)
        if wanted is None or got is None:
            return None if wanted is got else f"{wanted} became {got}"
        got, wanted = np.asarray(got), np.asarray(wanted)
        if got.shape != wanted.shape or (got.dtype != wanted.dtype and self.numerics != "relaxed"):
            return f"{wanted.dtype}{list(wanted.shape)} became {got.dtype}{list(got.shape)}"
        if got.dtype.kind in "biuSUO":
            same = got == wanted
        else:
            same = self.close(got, wanted, truth)
        if np.all(same):
            return None
        at = tuple(int(i) for i in np.argwhere(~np.asarray(same))[0])
        return f"element {list(at)} of {list(got.shape)}: {wanted[at]} became {got[at]}"

    def close(self, got, wanted, truth):
        u, v = got.astype(np.float64), wanted.astype(np.float64)
        same = (u == v) & ((np.signbit(u) == np.signbit(v)) | (not self.keeps_zeros)) | (np.isnan(u) & np.isnan(v))
        if self.is_exact:
            return same
        finite = np.isfinite(u) & np.isfinite(v)
        largest = np.abs(v[np.isfinite(v)]).max(initial=0)
        share = 1e-3 if self.numerics == "relaxed" else TOLERANCE.get(wanted.dtype, 1e-1)
        with np.errstate(invalid="ignore", over="ignore"):
            near = np.abs(u - v) <= share * largest
            if truth is not None and truth.shape == u.shape and truth.dtype.kind == "f":
                near |= np.abs(u - truth) <= 2 * np.abs(v - truth)  # no worse than before
                near |= ~np.isfinite(v) & np.isfinite(truth)  # it overflowed
        return same | (finite & near) | (~np.isfinite(v) & near)


class Folder:
    """The output of `sx_test --write-models`."""

    def __init__(self, path: Path):
        self.path = path
        self.cases = [json.loads(line) for line in (path / "cases.jsonl").read_text().splitlines()]
        self.values = (path / "values.bin").read_bytes()

    def value(self, v):
        if v is None:
            return None
        if isinstance(v, dict):
            return [self.value(item) for item in v["items"]]
        tensor = onnx.TensorProto.FromString(self.values[v[0] : v[0] + v[1]])
        array = numpy_helper.to_array(tensor)
        return array.astype(object) if tensor.data_type == onnx.TensorProto.STRING else np.array(array)

    def model(self, name: str | None) -> onnx.ModelProto | None:
        return fitted(onnx.load(self.path / name)) if name else None

    def judge(self, case: dict) -> dict:
        """{"refused": why onnxruntime does not run it}, {"wrong": ...} or {"runs": how many agree}."""
        if not case["runs"]:
            return {"refused": f"no inputs: {case['skipped']}"}
        before, after = self.model(case["before"]), self.model(case["after"])
        if before is not None and name_bodies(before):
            name_bodies(after)
        if not is_known(after):
            return {"refused": "an opset that it does not load"}
        rule = Exactly(case["numerics"], [m for m in (before, after) if m is not None])
        try:
            left = [session_of(before, level) for level in LEVELS] if before is not None else None
        except Exception as error:
            return {"refused": reason_of(error)}
        try:
            right = [session_of(after, level) for level in LEVELS]
        except Exception as error:
            if left is None:
                return {"refused": reason_of(error)}
            return {"wrong": f"the result does not load: {str(error)[:300]}"}
        runs, refused = 0, ""
        for n, run in enumerate(case["runs"]):
            inputs = dict(zip(case["inputs"], map(self.value, run["inputs"]), strict=True))
            evaluated = [self.value(v) for v in run["results"]]
            truth = [self.value(v) for v in run["truth"]] or [None] * len(evaluated)
            try:
                wanted = [s.run(None, inputs) for s in left] if left is not None else [evaluated, evaluated]
            except Exception as error:
                refused = "no inputs that it takes: " + reason_of(error)
                continue
            for level, session in enumerate(right):
                # Where onnxruntime differs from the standard, or from itself when it optimizes, either result
                # is accepted.
                sides = [wanted[level], wanted[0], evaluated]
                names = {i.name for i in (*session.get_inputs(), *session.get_overridable_initializers())}
                fed = {name: v for name, v in inputs.items() if name in names}
                try:
                    got = session.run(None, fed)
                except Exception as error:
                    if left is None:
                        return {"refused": reason_of(error)}
                    return {"wrong": f"run {n}, level {level}: the result does not run: {str(error)[:300]}"}
                if len(got) != len(evaluated):
                    return {"wrong": f"run {n}: {len(evaluated)} results became {len(got)}"}
                for k, (g, t, *expected) in enumerate(zip(got, truth, *sides, strict=True)):
                    found = [rule.difference(g, e, t) for e in expected]
                    if all(found):
                        return {"wrong": f"run {n}, level {level}, result {k}: {found[0]}"}
            runs += 1
        return {"runs": runs} if runs else {"refused": refused}


def verdicts(folder: Path) -> dict[str, dict]:
    """The results of Folder.judge(), by case. A case that ends the process counts as refused."""
    found: dict[str, dict] = {}
    names = [case["case"] for case in Folder(folder).cases]
    while len(found) < len(names):
        command = [sys.executable, __file__, str(folder), str(len(found))]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        for line in map(json.loads, done.stdout.splitlines()):
            found[line.pop("case")] = line
        if len(found) < len(names):
            if done.returncode >= 0:
                raise RuntimeError(f"{command} ended with {done.returncode} at {names[len(found)]}")
            found[names[len(found)]] = {"refused": "ends the process"}
    return found


class Listed:
    """The list of cases that releases do not run, or compute otherwise: sections of lines "case | reason", by release, and of all of these."""

    PATH = Path(__file__).resolve().parents[2] / "onnxruntime" / "cases.txt"
    HEAD = """\
# Text cases that onnxruntime's CPU provider does not run, and why, by release. Reasons that begin with "differs" are of cases whose left side
# runs and whose right side does not agree: each is to be mended, or a fault of the release. "all" stands for the releases that have a section.
# `python tests/python/support/onnxruntime_cases.py --bless FOLDER` writes what is refused; what differs is written by hand.
"""

    def __init__(self):
        self.by_release: dict[str, dict[str, str]] = {}
        everywhere: dict[str, str] = {}
        section: dict[str, str] = {}
        for line in self.PATH.read_text().splitlines() if self.PATH.exists() else ():
            if found := re.fullmatch(r"\[(.*)\]", line):
                section = everywhere if found[1] == "all" else self.by_release.setdefault(found[1], {})
            elif line and not line.startswith("#"):
                case, reason = line.rsplit(" | ", 1)
                section[case] = reason
        for cases in self.by_release.values():
            cases |= everywhere

    def write(self) -> None:
        first, *others = self.by_release.values()
        everywhere = {case: r for case, r in first.items() if all(other.get(case) == r for other in others)}
        sections = {"all": everywhere} | {
            release: {case: r for case, r in cases.items() if everywhere.get(case) != r}
            for release, cases in sorted(self.by_release.items())
        }
        text = self.HEAD
        for name, cases in sections.items():
            text += f"\n[{name}]\n" + "".join(f"{case} | {reason}\n" for case, reason in sorted(cases.items()))
        self.PATH.parent.mkdir(exist_ok=True)
        self.PATH.write_text(text)


def main() -> None:
    if sys.argv[1] == "--bless":
        listed = Listed()
        release = ".".join(map(str, RUNTIME))
        known = listed.by_release.get(release, {})
        cases = {}
        for case, verdict in verdicts(Path(sys.argv[2])).items():
            if "refused" in verdict:
                cases[case] = verdict["refused"]
            elif "wrong" in verdict:
                cases[case] = known.get(case, f"differs: {verdict['wrong'][:160]}")
        listed.by_release[release] = cases
        listed.write()
        return
    folder = Folder(Path(sys.argv[1]))
    for case in folder.cases[int(sys.argv[2]) if len(sys.argv) > 2 else 0 :]:
        print(json.dumps({"case": case["case"]} | folder.judge(case)), flush=True)


if __name__ == "__main__":
    main()
