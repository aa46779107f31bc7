"""coremltools' `convert`: change `coremltools.convert` to `sardonyx.compat.coremltools.convert`. And its
`linear_quantize_activations`, `linear_quantize_weights`, `palettize_weights` and `prune_weights`.

Its objects (TensorType, ImageType, RangeDim and so on) are known by their class names: coremltools need not be installed,
and whoever passes one has imported it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx._coreml.convert import to_coreml
from sardonyx._error import Error, WrongType
from sardonyx._models.sources import is_model
from sardonyx._values import Classifier
from sardonyx.compat._coreml_weights import (
    linear_quantize_activations,
    linear_quantize_weights,
    palettize_weights,
    prune_weights,
)
from sardonyx.coreml import pipeline_of

__all__ = [
    "convert",
    "linear_quantize_activations",
    "linear_quantize_weights",
    "palettize_weights",
    "prune_weights",
]

_COLORS = {"RGB": "rgb", "BGR": "bgr", "G": "gray", "G_FLOAT16": "gray16"}


def convert(
    model: Any = None,
    source: str = "auto",
    inputs: Any = None,
    outputs: Any = None,
    classifier_config: Any = None,
    minimum_deployment_target: Any = None,
    convert_to: str | None = None,
    compute_precision: Any = None,
    skip_model_load: bool = False,
    compute_units: Any = None,
    package_dir: str | os.PathLike | None = None,
    debug: bool = False,
    pass_pipeline: Any = None,
    states: Any = None,
    **options: Any,
) -> Any:
    """`coremltools.convert`, by `sardonyx.to_coreml`, whose other keywords are `options`.

    Args:
        model: An ONNX model or a JAX function, as of `to_coreml`.
        source: "auto".
        inputs, outputs: `TensorType` and `ImageType` objects, with `RangeDim` and `EnumeratedShapes` in their
            shapes. Those of a model have names; a JAX function's are in order. An option of `to_coreml` that
            states something else of an input wins.
        classifier_config: A `ClassifierConfig`.
        minimum_deployment_target: A `coremltools.target`, or its name. Default: iOS 17.
        compute_precision: A `coremltools.precision`. Default: half precision.
        package_dir: Where the package is written.
        pass_pipeline: A `PassPipeline`.
        states: `StateType` objects with the result that each holds after a run: `{ct.StateType(...): "t"}`.
        convert_to: "mlprogram".
        skip_model_load, compute_units, debug: Taken, without effect: nothing is loaded here.

    Returns:
        The `sardonyx.coreml.Program`.
    """
    for name, value, only in (("source", source, "auto"), ("convert_to", convert_to or "mlprogram", "mlprogram")):
        if value != only:
            raise Error(f"{name}={value!r} is not supported", "unsupported", [f'expected "{only}"'])
    interface = Interface()
    functions = options.get("functions")
    if functions is not None:
        options["functions"] = {
            name: part if is_model(part) else (part[0], jax_inputs(part[1], interface), *part[2:])
            for name, part in functions.items()
        }
    elif is_model(model):
        interface.add_inputs(() if inputs is None else inputs)
    else:
        options["inputs"] = jax_inputs(inputs, interface)
    interface.add_outputs(() if outputs is None else outputs)
    options |= joined({name: options.get(name) for name in interface.keywords()}, interface.keywords())
    options |= {
        "target": minimum_deployment_target,
        "precision": precision(compute_precision),
    }
    if classifier_config is not None:
        options["class_labels"] = classifier(classifier_config)
    if pass_pipeline is not None:
        options["passes"], own = pipeline_of(pass_pipeline, half=options["precision"] != "f32")
        options["options"] = own | dict(options.get("options") or {})
    if package_dir is not None:
        options["output_path"] = package_dir
    return to_coreml(model, states=state_names(states), **{k: v for k, v in options.items() if v is not None})


def is_a(x: Any, *names: str) -> bool:
    return type(x).__module__.startswith("coremltools.") and type(x).__name__ in names


def precision(given: Any) -> Any:
    """`ct.precision.FLOAT16` as "f16"; others as they are."""
    if is_a(given, "ComputePrecision", "Precision", "precision"):
        return {"FLOAT16": "f16", "FLOAT32": "f32"}[given.name]
    if is_a(given, "FP16ComputePrecision"):
        raise Error(
            "compute_precision is a function over ops, and only names can be given here",
            notes=['help: ct.precision.FLOAT16, with keep_f32=[...] or keep_f32="auto"'],
        )
    return given


def classifier(config: Any) -> Classifier:
    return Classifier(config.class_labels, config.predicted_feature_name, config.predicted_probabilities_output)


def state_names(given: Any) -> dict[str, Any]:
    """`states` with the names of `ct.StateType` objects in their place."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {_state_name(key): result for key, result in given.items()}
    found = list(given)
    if any(is_a(s, "StateType") for s in found):
        name = next(_state_name(s) for s in found if is_a(s, "StateType"))
        raise Error(
            f"the state '{name}' does not name the result that it holds after a run",
            notes=[f'help: states={{"{name}": "the name of the result"}}'],
        )
    return dict(found)


def _state_name(key: Any) -> str:
    if not is_a(key, "StateType"):
        return str(key)
    if not key.name:
        raise Error("a StateType has no name", notes=["help: name=, as the input of the model is called"])
    return key.name


class Interface:
    """What lists of TensorType and ImageType say, by keyword."""

    def __init__(self) -> None:
        self.input_shapes: dict[str, tuple] = {}
        self.sizes: dict[str, tuple[int, int | None]] = {}
        self.default_sizes: dict[str, int] = {}
        self.enumerated_shapes: dict[str, list[tuple[int, ...]]] = {}
        self.image_inputs: dict[str, dict[str, Any]] = {}
        self.image_outputs: dict[str, str] = {}
        self.input_types: dict[str, str] = {}
        self.output_types: dict[str, str] = {}

    def add_inputs(self, given: Any) -> None:
        for one in _listed("inputs", given):
            self.add_input(one)
            name = _name(one, "an input")
            if is_a(one.shape, "EnumeratedShapes"):
                self.enumerated_shapes[name] = _enumerated(one.shape)
            elif one.shape is not None:
                self.input_shapes[name] = tuple(map(self.size, one.shape.shape))

    def add_input(self, one: Any) -> None:
        """All but the shape."""
        if is_a(one, "ImageType"):
            self.image_inputs[_name(one, "an input")] = _image(one)
        elif getattr(one, "default_value", None) is not None:
            raise Error(
                "an input with a default value cannot be written", notes=["help: make the value part of the model"]
            )
        elif one.dtype is not None and (kind := _kind(one.dtype)):
            self.input_types[_name(one, "an input")] = kind

    def add_outputs(self, given: Any) -> None:
        for one in _listed("outputs", given):
            name = _name(one, "a result")
            if is_a(one, "ImageType"):
                self.image_outputs[name] = _COLORS[one.color_layout.value]
            elif one.dtype is not None and (kind := _kind(one.dtype)):
                self.output_types[name] = kind

    def size(self, size: Any) -> int | str:
        """A number, or the name of a range."""
        if not is_a(size, "RangeDim"):
            return int(size)
        name = str(size.symbol)
        self.sizes[name] = (size.lower_bound, size.upper_bound if size.upper_bound > 0 else None)
        if size.default != size.lower_bound:
            self.default_sizes[name] = int(size.default)
        return name

    def keywords(self) -> dict[str, Any]:
        return vars(self)


def joined(keywords: Mapping[str, Any], objects: Mapping[str, Any]) -> dict[str, Any]:
    """Both; a keyword that says something of its own about one input wins over the object."""
    found = dict(keywords)
    for name, more in objects.items():
        own = found.get(name)
        if not more:
            continue
        if isinstance(own, str):  # one element type for all
            found[name] = {"": own} | more
        else:
            found[name] = more | dict(own or {})
    return found


def jax_inputs(given: Any, interface: Interface) -> Any:
    """The inputs of a JAX function with shapes and dtypes in place of TensorType and ImageType."""
    if not isinstance(given, list | tuple) or not any(is_a(one, "TensorType", "ImageType") for one in given):
        return given
    return [_jax_input(one, interface) if is_a(one, "TensorType", "ImageType") else one for one in given]


def _jax_input(one: Any, interface: Interface) -> Any:
    interface.add_input(one)
    if one.shape is None:
        raise Error("the input of a JAX function needs a shape", notes=["help: ct.TensorType(shape=(1, 3, 224, 224))"])
    if is_a(one.shape, "EnumeratedShapes"):
        raise Error(
            "the enumerated shapes of a JAX function's input need names for the sizes that differ",
            notes=['help: inputs=[(1, 3, "H", "W")], enumerated_shapes={"x": [(1, 3, 224, 224), (1, 3, 384, 384)]}'],
        )
    shape = []
    for size in one.shape.shape:
        bounded = is_a(size, "RangeDim") and size.upper_bound > 0
        shape.append(f"{interface.size(size)} <= {size.upper_bound}" if bounded else interface.size(size))
    if (
        one.dtype is None or _kind(one.dtype) is not None
    ):  # traced in single precision; the interface has its own element type
        return tuple(shape)
    word = "bool" if np.dtype(_numpy(one.dtype)).kind == "b" else "i32"
    return f"{word}[{','.join(map(str, shape))}]"


def _listed(keyword: str, given: Any) -> list[Any]:
    found = list(given) if isinstance(given, list | tuple) else [given]
    wrong = [x for x in found if not is_a(x, "TensorType", "ImageType")]
    if wrong:
        raise WrongType(f"{keyword} are coremltools' TensorType or ImageType objects, not {wrong[0]!r:.100}")
    return found


def _name(one: Any, what: str) -> str:
    if not one.name:
        raise Error(
            f"a {type(one).__name__} has no name, and {what} of the model is meant by its name",
            notes=[f'help: ct.{type(one).__name__}(name="x", ...)'],
        )
    return one.name


def _enumerated(shapes: Any) -> list[tuple[int, ...]]:
    """The default first."""
    found = [tuple(int(size) for size in shape.shape) for shape in shapes.shapes]
    first = tuple(int(size) for size in shapes.default)
    return [first, *(shape for shape in found if shape != first)] if first in found else found


def _image(one: Any) -> dict[str, Any]:
    if one.grayscale_use_uint8:
        raise Error("grayscale_use_uint8 is not supported: numbers of images are floats in the program")
    color = _COLORS[one.color_layout.value]
    scale = one.scale
    if isinstance(scale, Sequence):
        if len(set(scale)) > 1:
            raise Error(
                f"the image '{one.name}' has a scale for each channel, and Sardonyx takes one for all",
                notes=["help: scale inside of the model"],
            )
        scale = scale[0]
    bias = one.bias if isinstance(one.bias, Sequence) else [one.bias]
    return {"color": color, "scale": float(scale), "bias": [float(b) for b in bias] if any(bias) else []}


def _numpy(kind: Any) -> Any:
    """An element type of NumPy, for one of NumPy or of coremltools."""
    from coremltools.converters.mil.mil import types

    return types.nptype_from_builtin(kind) if types.is_builtin(kind) else kind


def _kind(kind: Any) -> str | None:
    """ "fp16" or "fp32"; None for integers, which stay as the model has them."""
    try:
        name = np.dtype(_numpy(kind)).name
    except TypeError:
        raise Error(f"the element type {kind!r} cannot be an input or a result") from None
    return {"float16": "fp16", "float32": "fp32", "float64": "fp32"}.get(name)
