"""Single PyTorch layers to Core ML: the ops that Sardonyx and coremltools write for each.

    bench/coreml_layers.py [--only NAME ...] [--page] [--out build/bench]

Needs bench/requirements-coreml.txt, which RIVALS_PYTHON's environment has. Each layer goes through TorchScript to coremltools, and
through ONNX to Sardonyx, for iOS 17 and iOS 18 in both precisions. Ops are counted in the written packages, without constants. Values
are compared with PyTorch's on our evaluator, in single precision. A layer of more ops than coremltools' is a miss unless REASONS has it.
`--page` writes the table into docs/generated/coreml.md.
"""

import json
import os
import sys
import tempfile
import warnings
from pathlib import Path

from common import RIVALS, ROOT, asked_to_work, finish, measure, parser

sys.path.insert(0, os.environ.get("PYTHONPATH", "").split(":")[0] or str(ROOT / "build" / "release" / "python"))
PAGE = ROOT / "docs" / "generated" / "coreml.md"
BEGIN, END = "<!-- layers: bench/coreml_layers.py -->\n", "<!-- end of layers -->\n"
TOLERANCE = 1e-5
TARGETS = ("iOS17", "iOS18")
FEWEST = 60  # layers that both must convert

# Why a layer has more ops than coremltools writes.
REASONS: dict[str, str] = {
    "LogSoftmax": "the logarithm of a softmax is -inf where the softmax vanishes, 17 below the maximum in half precision",
    "attention, masked": "iOS 18: in half precision, a mask that is an input is cut at -65504, else a row of it that hides all gives NaN",
    "unfold of images": "coremltools multiplies by a kernel of zeros and ones, which makes NaN of an infinite neighbor",
    "floor_divide": "the ONNX file has a division of integers that truncates",
}


class Inputs:
    """What layers are given, of sizes that tell axes apart."""

    def __init__(self):
        import torch

        torch.manual_seed(7)
        self.image, self.line, self.row = torch.randn(2, 12, 10, 14), torch.randn(2, 12, 15), torch.randn(3, 20)
        self.tokens = torch.randint(0, 13, (2, 7))
        self.steps = torch.randn(7, 2, 12)
        self.heads = [torch.randn(2, 3, 7, 8) for _ in range(3)]
        self.grid = torch.rand(2, 5, 6, 2) * 1.6 - 0.8


def layers() -> dict[str, tuple]:
    """Name to (module or function, inputs)."""
    found: dict[str, tuple] = {}

    def add(name, layer, *inputs):
        found[name] = (layer, inputs)

    given = Inputs()
    for family in (weighted, activations, images, attention, arrangements, arithmetic):
        family(add, given)
    return found


def weighted(add, given: Inputs) -> None:
    """Layers with weights."""
    import torch
    from torch import nn

    add("Linear", nn.Linear(20, 11), given.row)
    add("Linear without bias", nn.Linear(20, 11, bias=False), given.row)
    add("Linear of three axes", nn.Linear(15, 11), given.line)
    add("Linear without bias of three axes", nn.Linear(15, 11, bias=False), given.line)
    add("Bilinear", nn.Bilinear(20, 11, 5), given.row, torch.randn(3, 11))
    add("Conv1d", nn.Conv1d(12, 6, 3, padding=1), given.line)
    add("Conv2d", nn.Conv2d(12, 6, 3, padding=1, stride=2), given.image)
    add("Conv2d, depthwise", nn.Conv2d(12, 12, 3, groups=12), given.image)
    add("Conv2d, dilated, no bias", nn.Conv2d(12, 6, 3, dilation=2, bias=False), given.image)
    add("Conv2d, reflected padding", nn.Conv2d(12, 6, 3, padding=1, padding_mode="reflect"), given.image)
    add("Conv3d", nn.Conv3d(3, 5, 3), torch.randn(2, 3, 7, 8, 9))
    add("ConvTranspose1d", nn.ConvTranspose1d(12, 6, 3, stride=2), given.line)
    add("ConvTranspose2d", nn.ConvTranspose2d(12, 6, 4, stride=2, padding=1), given.image)
    add("BatchNorm1d", nn.BatchNorm1d(12), given.line)
    add("BatchNorm2d", nn.BatchNorm2d(12), given.image)
    add("LayerNorm", nn.LayerNorm(15), given.line)
    add("LayerNorm without weights", nn.LayerNorm(15, elementwise_affine=False), given.line)
    add("GroupNorm", nn.GroupNorm(3, 12), given.image)
    add("InstanceNorm2d", nn.InstanceNorm2d(12, affine=True), given.image)
    add("RMSNorm", nn.RMSNorm(15), given.line)
    add("LocalResponseNorm", nn.LocalResponseNorm(3), given.image)
    add("LSTM", nn.LSTM(12, 11), given.steps)
    add("LSTM, batch first", nn.LSTM(12, 11, batch_first=True), torch.randn(2, 7, 12))
    add("LSTM, bidirectional", nn.LSTM(12, 11, bidirectional=True), given.steps)
    add("LSTM, two layers", nn.LSTM(12, 11, num_layers=2), given.steps)
    add("GRU", nn.GRU(12, 11), given.steps)
    add("RNN", nn.RNN(12, 11), given.steps)
    add("RNN of relu", nn.RNN(12, 11, nonlinearity="relu"), given.steps)
    add("Embedding", nn.Embedding(13, 20), given.tokens)


def activations(add, given: Inputs) -> None:
    """Activations."""
    from torch import nn

    for kind in (
        "ReLU ReLU6 LeakyReLU PReLU ELU SELU CELU GELU SiLU Mish Softplus Softsign Hardswish Hardsigmoid Hardtanh "
        "Sigmoid Tanh Tanhshrink Softshrink Hardshrink LogSigmoid"
    ).split():
        add(kind, getattr(nn, kind)(), given.row)
    add("PReLU of channels", nn.PReLU(12), given.image)
    add("GELU, tanh", nn.GELU(approximate="tanh"), given.row)
    add("GLU", nn.GLU(), given.row)
    add("Softmax", nn.Softmax(-1), given.row)
    add("LogSoftmax", nn.LogSoftmax(-1), given.row)


def images(add, given: Inputs) -> None:
    """Pooling, resampling and padding."""
    import torch.nn.functional as F
    from torch import nn

    add("MaxPool2d", nn.MaxPool2d(3, stride=2, padding=1), given.image)
    add("AvgPool2d", nn.AvgPool2d(3, stride=2, padding=1), given.image)
    add("AdaptiveAvgPool2d(1)", nn.AdaptiveAvgPool2d(1), given.image)
    add("AdaptiveAvgPool2d(5, 7)", nn.AdaptiveAvgPool2d((5, 7)), given.image)
    add("AdaptiveMaxPool2d(1)", nn.AdaptiveMaxPool2d(1), given.image)
    add("Upsample, nearest", nn.Upsample(scale_factor=2), given.image)
    add("Upsample, bilinear", nn.Upsample(scale_factor=2, mode="bilinear"), given.image)
    add("Upsample, bilinear, corners", nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), given.image)
    add("interpolate to a size", lambda x: F.interpolate(x, (23, 17), mode="bilinear"), given.image)
    add("PixelShuffle", nn.PixelShuffle(2), given.image)
    add("PixelUnshuffle", nn.PixelUnshuffle(2), given.image)
    add("ZeroPad2d", nn.ZeroPad2d(1), given.image)
    add("ReflectionPad2d", nn.ReflectionPad2d(2), given.image)
    add("ReplicationPad2d", nn.ReplicationPad2d(2), given.image)
    for mode in ("bilinear", "nearest"):
        for padding in ("zeros", "border", "reflection"):
            for align in (False, True):
                add(
                    f"grid_sample, {mode}, {padding}{', corners' if align else ''}",
                    lambda x, g, m=mode, p=padding, a=align: F.grid_sample(x, g, m, p, a),
                    given.image,
                    given.grid,
                )


def attention(add, given: Inputs) -> None:
    """Attention."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    add("MultiheadAttention", Attending(nn.MultiheadAttention(12, 3, batch_first=True)), torch.randn(2, 7, 12))
    add("scaled_dot_product_attention", F.scaled_dot_product_attention, *given.heads)
    add("attention, causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), *given.heads)
    add(
        "attention, scaled",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3),
        *given.heads,
    )
    add(
        "attention, masked",
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        *given.heads,
        torch.randn(7, 7),
    )
    add("TransformerEncoderLayer", nn.TransformerEncoderLayer(12, 3, 20, batch_first=True), torch.randn(2, 7, 12))


def arrangements(add, given: Inputs) -> None:
    """What moves elements."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    add("Flatten", nn.Flatten(), given.image)
    add("CosineSimilarity", nn.CosineSimilarity(), given.row, torch.randn(3, 20))
    add("normalize", F.normalize, given.row)
    add("chunk", lambda x: x.chunk(3, -1), given.line)
    add("chunk and add", lambda x: sum(x.chunk(3, -1)), given.line)
    add("split", lambda x: x.split([4, 5, 6], -1), given.line)
    add("unbind", lambda x: x.unbind(1), torch.randn(2, 3, 5))
    add("one_hot", lambda i: F.one_hot(i, 13).float(), given.tokens)
    add("constant indices", lambda x: x[:, [0, 2, 3, 7]], given.line)
    add("index_select", lambda x: x.index_select(2, torch.tensor([1, 5, 2])), given.line)
    add("roll", lambda x: x.roll(2, 1), given.line)
    add("roll of two axes", lambda x: x.roll((2, 3), (2, 3)), given.image)
    add("flip", lambda x: x.flip(2), given.line)
    add("slice", lambda x: x[:, 2:9:2], given.line)


def arithmetic(add, given: Inputs) -> None:
    """Products, reductions and elementwise arithmetic."""
    import torch
    from torch import nn

    add("einsum", lambda a, b: torch.einsum("bij,bkj->bik", a, b), given.line, torch.randn(2, 5, 15))
    add("matmul", torch.matmul, given.line, torch.randn(2, 15, 7))
    add("baddbmm", torch.baddbmm, torch.randn(2, 12, 7), given.line, torch.randn(2, 15, 7))
    add("cumsum", lambda x: x.cumsum(1), given.line)
    add("topk", lambda x: x.topk(3), given.line)
    add("sort", lambda x: x.sort(-1), given.line)
    add("argmax", lambda x: x.argmax(-1), given.line)
    add("mean", lambda x: x.mean((2, 3)), given.image)
    add("var", lambda x: x.var(-1), given.line)
    add("norm", lambda x: x.norm(dim=-1), given.line)
    add("logsumexp", lambda x: x.logsumexp(-1), given.line)
    add("max of an axis", lambda x: x.max(-1), given.line)
    add("masked_fill", lambda x, m: x.masked_fill(m > 0, -3.0), given.line, torch.randn(2, 12, 15))
    add("where", lambda x, y: torch.where(x > y, x, y), given.line, torch.randn(2, 12, 15))
    add("tril", torch.tril, given.line)
    add("stack", lambda x, y: torch.stack((x, y), 1), given.line, torch.randn(2, 12, 15))
    add("cat", lambda x, y: torch.cat((x, y), 1), given.line, torch.randn(2, 5, 15))
    add("repeat", lambda x: x.repeat(1, 2, 3), given.line)
    add("expand", lambda x: x[:, :, None].expand(3, 20, 5) + 1, given.row)
    add("permute", lambda x: x.permute(0, 2, 3, 1), given.image)
    add("gather", lambda x, i: x.gather(1, i), given.line, torch.randint(0, 12, (2, 12, 15)))
    add(
        "scatter_add",
        lambda x, i, u: x.scatter_add(1, i, u),
        given.line,
        torch.randint(0, 12, (2, 4, 15)),
        torch.randn(2, 4, 15),
    )
    add("unfold of images", nn.Unfold(3), torch.randn(1, 3, 8, 9))
    add("pow", lambda x: x.abs() ** 1.7, given.row)
    add("clamp", lambda x: x.clamp(-0.5, 0.7), given.row)
    add("floor_divide", lambda x: torch.floor_divide(x, 3), given.tokens)
    add("remainder", lambda x: torch.remainder(x, 0.3), given.row)
    add("rsqrt", lambda x: torch.rsqrt(x.abs() + 1), given.row)
    add("lerp", lambda x, y: torch.lerp(x, y, 0.3), given.row, torch.randn(3, 20))
    add("addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=0.5), given.row, torch.randn(3, 20), torch.randn(3, 20))


def Attending(attention):
    import torch

    class Self(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = attention

        def forward(self, x):
            return self.attention(x, x, x, need_weights=False)[0]

    return Self()


def module_of(layer):
    import torch

    if isinstance(layer, torch.nn.Module):
        return layer.eval()

    class Layer(torch.nn.Module):
        def forward(self, *inputs):
            return layer(*inputs)

    return Layer().eval()


def tensors(results) -> list:
    import torch

    return [results] if isinstance(results, torch.Tensor) else [t for r in results for t in tensors(r)]


def counts(package: Path) -> dict[str, int]:
    from sardonyx import coreml

    return {op: n for op, n in sorted(coreml.load(package).op_counts().items()) if op != "const"}


def worst_difference(package: Path, inputs, wanted) -> float:
    """Of the largest value of each result."""
    import numpy as np
    from sardonyx import coreml

    found = list(coreml.load(package).run(inputs).values())
    if [tuple(f.shape) for f in found] != [tuple(w.shape) for w in wanted]:
        return float("inf")
    worst = 0.0
    for f, w in zip(found, wanted, strict=True):
        d = np.abs(f.astype(np.float64) - w).max(initial=0) / max(np.abs(w).max(initial=0), 1e-30)
        worst = max(worst, float("inf") if np.isnan(d) else float(d))
    return worst


def theirs(module, inputs, kinds, target: str, precision: str, out: Path) -> dict[str, int]:
    import coremltools as ct
    import numpy as np
    import torch

    with torch.no_grad():
        script = torch.jit.trace(module, inputs, check_trace=False)
        results = tensors(module(*inputs))
    program = ct.convert(
        script,
        inputs=[
            ct.TensorType(f"x{i}", shape=x.shape, dtype=kind)
            for i, (x, kind) in enumerate(zip(inputs, kinds, strict=True))
        ],
        outputs=[ct.TensorType(dtype=np.int32 if r.dtype == torch.int64 else np.float32) for r in results],
        minimum_deployment_target=getattr(ct.target, target),
        compute_precision={"fp16": ct.precision.FLOAT16, "fp32": ct.precision.FLOAT32}[precision],
        skip_model_load=True,
    )
    program.save(str(out))
    return counts(out)


def compared(wanted: list[str]) -> dict[str, dict]:
    """By layer, by "target precision": the ops of both, or why there are none."""
    import numpy as np
    import sardonyx
    import torch

    figures: dict[str, dict] = {}
    with tempfile.TemporaryDirectory() as top:
        for name, (layer, inputs) in layers().items():
            if wanted and name not in wanted:
                continue
            module, onnx, out = module_of(layer), Path(top) / "layer.onnx", Path(top) / "layer.mlpackage"
            kinds = [np.int32 if x.dtype == torch.int64 else np.float32 for x in inputs]
            figure = figures[name] = {}
            try:
                with torch.no_grad():
                    results = [r.numpy() for r in tensors(module(*inputs))]
                    torch.onnx.export(module, inputs, str(onnx), opset_version=20, dynamo=False)
            except Exception as error:
                figure["error"] = f"no ONNX: {str(error).strip().splitlines()[0]}"
                continue
            for target in TARGETS:
                for precision in ("fp16", "fp32"):
                    found = figure[f"{target} {precision}"] = {}
                    try:
                        sardonyx.to_coreml(onnx, output_path=out, target=target, precision=precision)
                        found["ours"] = counts(out)
                        arrays = [x.numpy().astype(kind) for x, kind in zip(inputs, kinds, strict=True)]
                        if precision == "fp32":
                            found["difference"] = worst_difference(out, arrays, results)
                    except Exception as error:
                        found["our error"] = str(error).strip().splitlines()[0]
                    try:
                        found["theirs"] = theirs(module, inputs, kinds, target, precision, out)
                    except Exception as error:
                        found["their error"] = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return figures


def told(ops: dict[str, int] | None) -> str:
    if ops is None:
        return "refused"
    return ", ".join(op if n == 1 else f"{n} {op}" for op, n in ops.items())


def row(name: str, figure: dict, missed: list[str]) -> str | None:
    """A line of the table; None if coremltools has nothing to compare with."""
    if "error" in figure:
        print(f"{name}: {figure['error']}")
        return None
    cells, more, worst = [], [], 0.0
    for how, found in figure.items():
        if "our error" in found:
            missed.append(f"{name}, {how}: {found['our error']}")
        if "their error" in found:
            print(f"{name}, {how}: coremltools: {found['their error']}")
        ours, ops = found.get("ours"), found.get("theirs")
        worst = max(worst, found.get("difference", 0.0))
        cells.append(f"{sum(ours.values()) if ours else '-'} / {sum(ops.values()) if ops else '-'}")
        if ours is not None and ops is not None and sum(ours.values()) > sum(ops.values()):
            more.append(f"{how}: {told(ours)} where coremltools has {told(ops)}")
    if worst > TOLERANCE:
        missed.append(f"{name}: differs from PyTorch by {worst:.1e}")
    if more and name not in REASONS:
        missed.extend(f"{name}, {line}" for line in more)
    if not more and name in REASONS:
        missed.append(f"{name} has no more ops than coremltools, and a reason for more")
    if any("theirs" not in found for found in figure.values()):
        return None
    return f"| {name} | {' | '.join(cells)} | {REASONS.get(name, '')} |"


def apart(rows: list[str]) -> tuple[list[str], list[str]]:
    """The rows with other counts than coremltools', and the names of the others."""
    counts = [[cell.split(" / ") for cell in row.split(" | ")[1:5]] for row in rows]
    alike = [all(len(c) == 2 and c[0] == c[1] for c in cells) for cells in counts]
    names = [row.split(" | ")[0].removeprefix("| ") for row in rows]
    return [r for r, a in zip(rows, alike, strict=True) if not a], [n for n, a in zip(names, alike, strict=True) if a]


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", default=[], metavar="NAME")
    options.add_argument("--page", action="store_true", help="write the table into docs/generated/coreml.md")
    arguments = options.parse_args()
    figures = measure(str(Path(__file__).resolve()), RIVALS, "compared", *arguments.only)
    if "error" in figures and isinstance(figures["error"], str):
        return finish(arguments.out, "coreml_layers", {}, [figures["error"]])
    missed: list[str] = []
    rows = [line for name, figure in figures.items() if (line := row(name, figure, missed)) is not None]
    if not arguments.only and len(rows) < FEWEST:
        missed.append(f"{len(rows)} layers could be compared, of at least {FEWEST}")
    rows, alike = apart(rows)
    heads = [f"{target}, {precision}" for target in TARGETS for precision in ("fp16", "fp32")]
    lines = [f"| Layer | {' | '.join(heads)} | why more |", "|---|--:|--:|--:|--:|---|", *rows]
    lines += ["", f"As many in each: {'; '.join(alike)}."]
    print("\n".join(lines))
    if arguments.page:
        head, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(head + BEGIN + "\n".join(lines) + "\n" + END + rest.split(END)[1])
    return finish(arguments.out, "coreml_layers", {"figures": figures}, missed)


if __name__ == "__main__":
    if (work := asked_to_work()) is not None:
        warnings.filterwarnings("ignore")
        print(json.dumps(compared(work[1:])))
        sys.exit(0)
    sys.exit(main())
