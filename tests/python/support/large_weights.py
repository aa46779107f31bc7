"""A model with more bytes of weights than the disk has to hold: all but the first row of each is a hole in the file."""

from pathlib import Path

import numpy as np
import onnx


def first_row(i: int, columns: int) -> np.ndarray:
    return np.arange(i + 1, i + columns + 1, dtype=np.float32)


def save_with_holes(folder: Path, rows: int, columns: int, count: int) -> Path:
    """Writes m.onnx and weights.bin: y0 = x @ w0, y1 = x @ w1, ... of f32."""
    size = rows * columns * 4
    nodes = "".join(f"y{i} = MatMul(x, w{i})\n" for i in range(count))
    results = ", ".join(f"float[2, {columns}] y{i}" for i in range(count))
    proto = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 21]> g (float[2, {rows}] x) => ({results}) {{ {nodes} }}'
    )
    folder.mkdir(exist_ok=True)
    with (folder / "weights.bin").open("wb") as file:
        file.truncate(size * count)
        for i in range(count):
            weight = onnx.TensorProto(name=f"w{i}", data_type=onnx.TensorProto.FLOAT, dims=[rows, columns])
            weight.data_location = onnx.TensorProto.EXTERNAL
            for key, value in {"location": "weights.bin", "offset": i * size, "length": size}.items():
                weight.external_data.add(key=key, value=str(value))
            proto.graph.initializer.append(weight)
            file.seek(i * size)
            file.write(first_row(i, columns).tobytes())
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    return folder / "m.onnx"
