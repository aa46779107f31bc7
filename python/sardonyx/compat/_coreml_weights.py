"""coremltools' functions that compress weights and values, by `sardonyx.coreml.optimize`.

Configurations are coremltools' own objects, known by their class names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from sardonyx._error import Error, WrongType
from sardonyx._models.program import Program
from sardonyx.coreml import optimize


def linear_quantize_weights(
    mlmodel: Any, config: Any, joint_compression: bool = False, output_path: str | os.PathLike | None = None
) -> Program:
    """Stores weights as integers, by an `OpLinearQuantizerConfig`. Returns the program; see `palettize_weights`."""
    how = _only(config, "OpLinearQuantizerConfig")
    weights = {"LINEAR_SYMMETRIC": "int", "LINEAR": "uint"}[how.mode] + str(how.nbits)
    granularity = how.granularity.name
    _refuse(granularity == "PER_TENSOR", "granularity per_tensor", "per_channel loses less")
    _refuse(
        granularity == "PER_BLOCK" and not isinstance(how.block_size, int), "a block_size for each axis", "a number"
    )
    blocks = how.block_size if granularity == "PER_BLOCK" else 0
    return _compressed(mlmodel, weights, {"block_size": blocks}, how, joint_compression, output_path)


def linear_quantize_activations(
    mlmodel: Any,
    config: Any,
    sample_data: Sequence[Mapping[str | None, Any]],
    calibration_op_group_size: int = -1,
    output_path: str | os.PathLike | None = None,
) -> Program:
    """Computes in integers of 8 bits, by an `OpLinearQuantizerConfig`, as `sardonyx.coreml.optimize(precision="int8")`.

    Args:
        mlmodel: As of `palettize_weights`, in a program for iOS 17 or later.
        config: An `OptimizationConfig` of coremltools with a `global_config` only: "linear_symmetric" has no zero points.
            Ranges decide whether codes have a sign.
        sample_data: The inputs of each run by name, or of a single input by None. The evaluator runs the program.
        calibration_op_group_size: Not needed.
        output_path: Where the package is written.

    Returns:
        The `sardonyx.coreml.Program`, in which the weights of the same ops are integers, too.
    """
    how = _only(config, "OpLinearQuantizerConfig")
    _refuse(how.nbits != 8, f"{how.nbits} bits of values", "8 bits")
    runs: list[Any] = [list(run.values()) if None in run else run for run in sample_data]
    symmetric = {"quantize_activations.symmetric": how.mode == "LINEAR_SYMMETRIC"}
    return optimize(
        _source_of(mlmodel), output_path, passes="none", precision="int8", calibration=runs, options=symmetric
    )


def palettize_weights(
    mlmodel: Any, config: Any, joint_compression: bool = False, output_path: str | os.PathLike | None = None
) -> Program:
    """Stores weights as indices into tables, by an `OpPalettizerConfig`.

    Args:
        mlmodel: A path, a `sardonyx.coreml.Program`, or an MLModel that was loaded from a package or saved there.
        config: An `OptimizationConfig` of coremltools with a `global_config` only.
        joint_compression: Only False.
        output_path: Where the package is written.

    Returns:
        The `sardonyx.coreml.Program`.
    """
    how = _only(config, "OpPalettizerConfig")
    _refuse(how.mode != "KMEANS", f'mode "{how.mode.lower()}"', '"kmeans", which is exact here')
    _refuse(how.cluster_dim != 1, "tables of vectors", "cluster_dim=1")
    _refuse(how.enable_per_channel_scale, "enable_per_channel_scale", "False")
    _refuse(how.channel_axis is not None, "channel_axis", "None: the axis of the op's channels")
    grouped = how.granularity.name == "PER_GROUPED_CHANNEL"
    options = {"group_size": how.group_size if grouped else 0}
    return _compressed(mlmodel, f"palette{how.nbits}", options, how, joint_compression, output_path)


def prune_weights(
    mlmodel: Any, config: Any, joint_compression: bool = False, output_path: str | os.PathLike | None = None
) -> Program:
    """Makes the weights of least magnitude zeros, by an `OpMagnitudePrunerConfig`; see `palettize_weights`."""
    how = _only(config, "OpMagnitudePrunerConfig")
    _refuse(how.target_sparsity is None, "n_m_ratio", "target_sparsity")
    _refuse(how.block_size is not None, "block_size", "None: single elements")
    return _compressed(mlmodel, "sparse", {"sparsity": how.target_sparsity}, how, joint_compression, output_path)


def _only(config: Any, name: str) -> Any:
    """The configuration of all ops. Throws if there are others."""
    if type(config).__name__ != "OptimizationConfig":
        raise WrongType(f"config is an OptimizationConfig of coremltools, not {config!r:.200}")
    how = config.global_config
    if type(how).__name__ != name:
        raise WrongType(f"the global_config is a {type(how).__name__}, and {name} was expected")
    _refuse(bool(config.op_type_configs or config.op_name_configs), "configurations of single ops", "a global_config")
    return how


def _refuse(refused: bool, what: str, expected: str) -> None:
    if refused:
        raise Error(f"{what} of coremltools is not supported", "unsupported", [f"expected {expected}"])


def _compressed(
    mlmodel: Any, weights: str, options: Mapping[str, Any], how: Any, joint: bool, output_path: str | os.PathLike | None
) -> Program:
    _refuse(joint, "joint_compression", "False")
    # coremltools compresses weights of more elements than that.
    options = {**options, "min_elements": how.weight_threshold + 1}
    named = {f"compress_weights.{name}": value for name, value in options.items()}
    return optimize(_source_of(mlmodel), output_path, passes="none", weights=weights, options=named)


def _source_of(mlmodel: Any) -> Any:
    if type(mlmodel).__name__ != "MLModel":
        return mlmodel
    if mlmodel.package_path is None:
        raise Error("the MLModel is in no package", notes=["help: model.save(path), and give the path"])
    return mlmodel.package_path
