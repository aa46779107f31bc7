"""The keywords of conversions to Core ML. Made by scripts/tables/keywords.py from src/convert/coreml_options.def."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from sardonyx._values import Image, Metadata


class CoremlOptions(TypedDict, total=False):
    target: Any
    """The oldest system that must run it: iOS15 to iOS18, iOS26, or one of the same years (macOS14)."""
    precision: Any
    """"f16" casts ops that exist in half precision, as coremltools does; "f32" keeps single precision.
    "int8" (iOS 17) is "f16", and computes convolutions and products with constant weights in integers of 8
    bits, scaled by what values are in `calibration`."""
    calibration: Sequence[Mapping[str, Any]] | None
    """For "int8": the inputs of runs, by name."""
    keep_f32: str | Sequence[str]
    """Names of ops that stay in single precision, or "auto": those that overflow or vanish in half
    precision, judged by bounds and by runs on random inputs. A warning lists them."""
    weights: str | None
    """Store weights in fewer bits: "int8", "uint8", from iOS 18 on "int4", "uint4"; "palette1", 2, 3 (iOS
    18), 4, 6 or 8, which are indices of so many bits into a table; "sparse", from iOS 18 on "sparse-int8",
    "sparse-palette4". Options of the pass compress_weights say more."""
    input_shapes: Mapping[str, Sequence[int | str]] | None
    """New shapes of inputs: `{"x": (1, 3, 224, 224)}`. A string is a named size; sizes that stay open
    become flexible shapes. A name in place of a number of the model opens that size, if all operators can
    take another one."""
    enumerated_shapes: Mapping[str, Sequence[Sequence[int]]] | None
    """Inputs that take a few shapes, the first the default: `{"x": [(1, 3, 224, 224), (1, 3, 384,
    384)]}`."""
    sizes: Mapping[str, tuple[int | None, int | None]] | None
    """The lowest and the highest number of named sizes, or None: `{"T": (1, 512)}`. They bound the flexible
    shapes."""
    default_sizes: Mapping[str, int] | None
    """What named sizes are by default: `{"T": 128}`. Others are at the low end of their range."""
    image_inputs: Mapping[str, str | Image | Mapping[str, Any]] | None
    """Inputs that take images: `{"x": "rgb"}` ("bgr", "gray", or "gray16" for half precision), or with what
    becomes of the numbers 0 to 255: `{"x": sardonyx.Image("rgb", scale=1 / 128, bias=(-1, -1, -1))}`."""
    image_outputs: Mapping[str, str] | None
    """Results that are images, of numbers from 0 to 255: `{"y": "rgb"}`."""
    input_types: str | Mapping[str, str] | None
    """Element types of inputs of floats, which otherwise have the model's: `{"x": "f16"}`, or "f16" for
    all. Half precision needs iOS 16."""
    output_types: str | Mapping[str, str] | None
    """The same of results."""
    states: Mapping[Any, Any] | None
    """Inputs that become states (iOS 18), each with the result that it holds after a run: `{"past_keys":
    "present_keys"}`. A state stays on the device between runs; its elements are half precision."""
    class_labels: Any
    """Makes a classifier: the labels of the classes, a file with one a line, or a `sardonyx.Classifier`,
    which also names the results."""
    metadata: Metadata | Mapping[str, str] | None
    """Metadata of the package: `{"author": "A"}`; also license, version, description, and keys of your
    own."""
    passes: str | Sequence[str]
    """What runs on the program: a preset (`sardonyx passes coreml` lists this one), or a list of passes."""
    skip: Sequence[str]
    """Passes to skip."""
    options: Mapping[str, Any] | None
    """Options of single passes: `{"const_elimination.skip_const_by_size": 1e6}`."""
    provenance: bool
    """Whether the metadata name the source file and line of a function, and ops of texts and steps
    theirs."""
    debug_dump: str | os.PathLike | None
    """A folder for the graph as text at each stage; of several functions, in a folder for each."""


DEFAULTS: dict[str, Any] = {
    "target": "iOS17",
    "precision": "f16",
    "calibration": None,
    "keep_f32": (),
    "weights": None,
    "input_shapes": None,
    "enumerated_shapes": None,
    "sizes": None,
    "default_sizes": None,
    "image_inputs": None,
    "image_outputs": None,
    "input_types": None,
    "output_types": None,
    "states": None,
    "class_labels": None,
    "metadata": None,
    "passes": "coreml",
    "skip": (),
    "options": None,
    "provenance": True,
    "debug_dump": None,
}
# The keyword of each field of the native options.
FIELDS = {
    "target": "target",
    "precision": "precision",
    "calibrate": "calibration",
    "input_shapes": "input_shapes",
    "enumerated_shapes": "enumerated_shapes",
    "sizes": "sizes",
    "default_sizes": "default_sizes",
    "image_inputs": "image_inputs",
    "image_outputs": "image_outputs",
    "input_types": "input_types",
    "output_types": "output_types",
    "states": "states",
    "classifier": "class_labels",
    "metadata": "metadata",
    "passes": "passes",
    "skip": "skip",
    "pass_options": "options",
    "provenance": "provenance",
}
DOC = """\
        target: The oldest system that must run it: iOS15 to iOS18, iOS26, or one of the same years
            (macOS14).
        precision: "f16" casts ops that exist in half precision, as coremltools does; "f32" keeps single
            precision. "int8" (iOS 17) is "f16", and computes convolutions and products with constant
            weights in integers of 8 bits, scaled by what values are in `calibration`.
        calibration: For "int8": the inputs of runs, by name.
        keep_f32: Names of ops that stay in single precision, or "auto": those that overflow or vanish in
            half precision, judged by bounds and by runs on random inputs. A warning lists them.
        weights: Store weights in fewer bits: "int8", "uint8", from iOS 18 on "int4", "uint4"; "palette1",
            2, 3 (iOS 18), 4, 6 or 8, which are indices of so many bits into a table; "sparse", from iOS 18
            on "sparse-int8", "sparse-palette4". Options of the pass compress_weights say more.
        input_shapes: New shapes of inputs: `{"x": (1, 3, 224, 224)}`. A string is a named size; sizes that
            stay open become flexible shapes. A name in place of a number of the model opens that size, if
            all operators can take another one.
        enumerated_shapes: Inputs that take a few shapes, the first the default: `{"x": [(1, 3, 224, 224),
            (1, 3, 384, 384)]}`.
        sizes: The lowest and the highest number of named sizes, or None: `{"T": (1, 512)}`. They bound the
            flexible shapes.
        default_sizes: What named sizes are by default: `{"T": 128}`. Others are at the low end of their
            range.
        image_inputs: Inputs that take images: `{"x": "rgb"}` ("bgr", "gray", or "gray16" for half
            precision), or with what becomes of the numbers 0 to 255: `{"x": sardonyx.Image("rgb", scale=1 /
            128, bias=(-1, -1, -1))}`.
        image_outputs: Results that are images, of numbers from 0 to 255: `{"y": "rgb"}`.
        input_types: Element types of inputs of floats, which otherwise have the model's: `{"x": "f16"}`, or
            "f16" for all. Half precision needs iOS 16.
        output_types: The same of results.
        states: Inputs that become states (iOS 18), each with the result that it holds after a run:
            `{"past_keys": "present_keys"}`. A state stays on the device between runs; its elements are half
            precision.
        class_labels: Makes a classifier: the labels of the classes, a file with one a line, or a
            `sardonyx.Classifier`, which also names the results.
        metadata: Metadata of the package: `{"author": "A"}`; also license, version, description, and keys
            of your own.
        passes: What runs on the program: a preset (`sardonyx passes coreml` lists this one), or a list of
            passes.
        skip: Passes to skip.
        options: Options of single passes: `{"const_elimination.skip_const_by_size": 1e6}`.
        provenance: Whether the metadata name the source file and line of a function, and ops of texts and
            steps theirs.
        debug_dump: A folder for the graph as text at each stage; of several functions, in a folder for
            each.
"""
