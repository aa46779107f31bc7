"""Test cases of plugins: callables that are built on demand, exported and compared with JAX."""

import dataclasses
import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sardonyx._error import Error


@dataclasses.dataclass(frozen=True)
class Later:
    """An argument that is made from the requested dtype when the constructor is called."""

    make: Callable[[Any], Any]


def with_requested_dtype() -> Later:
    """An argument of `construct_and_call`: the dtype that a case runs in."""
    return Later(lambda dtype: dtype)


def with_rng_seed(seed: int) -> Later:
    """An argument of `construct_and_call`: a new `flax.nnx.Rngs(seed)` for each module."""

    def make(dtype):
        from flax import nnx

        return nnx.Rngs(seed)

    return Later(make)


def with_prng_key(seed: int) -> Later:
    """An argument of `construct_and_call`: a new `jax.random.PRNGKey(seed)` for each module."""

    def make(dtype):
        import jax

        return jax.random.PRNGKey(seed)

    return Later(make)


@dataclasses.dataclass(frozen=True)
class Construct:
    """A callable that `instantiate()` builds anew, for the dtype of `with_dtype` (default: float32)."""

    constructor: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    dtype: Any = None

    def with_requested_dtype(self, *keywords: str) -> "Construct":
        """The dtype that a case runs in, as these keywords: by default those of `dtype` and `param_dtype`
        that the constructor has."""
        if not keywords:
            made_by = self.constructor.__init__ if inspect.isclass(self.constructor) else self.constructor
            known = inspect.signature(made_by).parameters  # a metaclass may hide those of the class
            keywords = tuple(k for k in ("dtype", "param_dtype") if k in known)
            if not keywords:
                raise Error(
                    f"{_name(self.constructor)} takes neither dtype nor param_dtype",
                    notes=["help: name the keyword: with_requested_dtype('...')"],
                )
        return self._with(dict.fromkeys(keywords, with_requested_dtype()))

    def with_rng_seed(self, seed: int, keyword: str = "rngs") -> "Construct":
        """A new `flax.nnx.Rngs(seed)` for each module, as that keyword."""
        return self._with({keyword: with_rng_seed(seed)})

    def with_prng_key(self, seed: int, keyword: str = "key") -> "Construct":
        """A new `jax.random.PRNGKey(seed)` for each module, as that keyword."""
        return self._with({keyword: with_prng_key(seed)})

    def with_dtype(self, dtype: Any) -> "Construct":
        """The same, with its modules made for that dtype."""
        return dataclasses.replace(self, dtype=dtype)

    def instantiate(self) -> Callable[..., Any]:
        """Calls the constructor; raises an Error if the result is not callable."""
        import jax

        dtype = "float32" if self.dtype is None else self.dtype
        dtype = jax.numpy.dtype(dtype)
        made = self.constructor(*_made(self.args, dtype), **_made(dict(self.kwargs), dtype))
        if not callable(made):
            raise Error(f"{_name(self.constructor)} made a {type(made).__name__}, which cannot be called")
        return made

    def __call__(self, *args, **kwargs):
        import jax

        with jax.ensure_compile_time_eval():  # its weights are numbers, inside a trace, too
            module = self.instantiate()
        return module(*args, **kwargs)

    def _with(self, more: Mapping[str, Any]) -> "Construct":
        return dataclasses.replace(self, kwargs={**self.kwargs, **more})


def construct_and_call(constructor: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Construct:
    """The callable of a case: `constructor(*args, **kwargs)`, made once for each dtype and shape that the
    case runs in.

    Nothing is made before it is needed, and no random numbers are drawn when a module is imported:

        construct_and_call(nnx.Linear, 3, 5).with_requested_dtype().with_rng_seed(0)
        construct_and_call(nnx.Linear, 3, 5, dtype=with_requested_dtype(), rngs=with_rng_seed(0))
    """
    if not callable(constructor):
        raise Error(f"construct_and_call takes what makes the callable, found {type(constructor).__name__}")
    return Construct(constructor, args, kwargs)


_OF_EXPORT = ("input_params", "inputs_as_nchw", "outputs_as_nchw", "normalization_mode", "opset", "target", "functions")
_KEYS = (
    *_OF_EXPORT,
    "testcase",
    "callable",
    "input_shapes",
    "input_values",
    "input_dtypes",
    "run_only_f32_variant",
    "run_only_f64_variant",
    "run_only_dynamic",
    "post_check_onnx_graph",
    "rtol",
    "atol",
)


def run_cases(declared: Any) -> list[str]:
    """Exports every case that a plugin declares, in each dtype and shape, and compares it with JAX in
    onnxruntime.

    Args:
        declared: A Plugin (class or object; `testcases=` of `register_primitive`), or the list of cases
            itself. A case is a mapping with `testcase` (its name), `callable` (a function or a
            `construct_and_call(...)`), and `input_shapes` (as for `to_onnx`) or `input_values`. It may have
            `input_dtypes`; `rtol`, `atol`; `run_only_f32_variant` or `run_only_f64_variant`;
            `run_only_dynamic`; `post_check_onnx_graph`, which is called with the model and returns False
            where it is not as it should be, such as `expect_graph(...)`; and these of `to_onnx`:
            input_params, inputs_as_nchw, outputs_as_nchw, normalization_mode, opset, target, functions.

    Each case runs in single and double precision (unless `input_dtypes` or `input_values` say which), and,
    where its shapes have symbols, with these as numbers and as symbols (then at two sizes).

    Returns:
        The names of what ran, such as "linear_f64_dynamic".

    Raises:
        Error: At the end, with all cases that failed, each with its reason.
    """
    failed, ran = [], []
    for case in _cases(declared):
        for name, options in _variants(case):
            ran.append(name)
            try:
                _run(case, **options)
            except Exception as e:
                failed.append(f"{name}: {type(e).__name__ if not isinstance(e, Error) else 'error'}: {e}")
    if failed:
        raise Error(f"{len(failed)} of {len(ran)} cases fail", notes=failed)
    return ran


def _cases(declared: Any) -> Sequence[Mapping[str, Any]]:
    found = declared if isinstance(declared, Sequence) else getattr(declared, "metadata", {}).get("testcases")
    if not found:
        name = getattr(declared, "__name__", type(declared).__name__)
        raise Error(f"{name} declares no cases", notes=["help: @register_primitive(..., testcases=[{...}])"])
    for case in found:
        for key in case:
            if key not in _KEYS:
                near = difflib.get_close_matches(key, _KEYS, 2)
                help = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(_KEYS)}"
                raise Error(f"a case has '{key}', which is not known", notes=[f"help: {help}"])
        for key in ("testcase", "callable"):
            if key not in case:
                raise Error(f"a case has no '{key}': {dict(case)}")
        if ("input_shapes" in case) == ("input_values" in case):
            raise Error(f"case '{case['testcase']}' has to have either input_shapes or input_values")
    return found


def _variants(case: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, bool]]]:
    only_single, only_double = case.get("run_only_f32_variant", False), case.get("run_only_f64_variant", False)
    typed = "input_dtypes" in case or "input_values" in case
    precisions = [False] if only_single or (typed and not only_double) else [True] if only_double else [False, True]
    symbolic = any(isinstance(d, str) for shape in case.get("input_shapes", ()) for d in shape)
    shapes = [True] if symbolic and case.get("run_only_dynamic", False) else [False, True] if symbolic else [False]
    for double in precisions:
        for dynamic in shapes:
            name = case["testcase"] + ("_f64" if double else "_f32") + ("_dynamic" if dynamic else "")
            yield name, {"double": double, "dynamic": dynamic}


def _run(case: Mapping[str, Any], double: bool, dynamic: bool) -> None:
    import jax
    import jax.numpy as jnp

    from sardonyx._trace import trace as _trace
    from sardonyx.compat.jax2onnx import allclose, to_onnx

    with _trace.x64(double):
        fn = case["callable"]
        if isinstance(fn, Construct):
            fn = fn.with_dtype(jnp.float64 if double else jnp.float32).instantiate()
        if "input_values" in case:
            inputs = [jnp.asarray(v) for v in case["input_values"]]
        else:
            shapes = [tuple(s) for s in case["input_shapes"]]
            shapes = shapes if dynamic else _numbers(shapes)
            dtypes = case.get("input_dtypes")
            inputs = shapes
            if dtypes is not None and dynamic:
                inputs = [f"{jnp.dtype(t).name}[{','.join(map(str, s))}]" for s, t in zip(shapes, dtypes, strict=True)]
            elif dtypes is not None:
                inputs = [jax.ShapeDtypeStruct(s, t) for s, t in zip(shapes, dtypes, strict=True)]
    options = {k: case[k] for k in _OF_EXPORT if k in case}
    own = "rtol" in case or "atol" in case
    model = to_onnx(
        fn, inputs, enable_double_precision=double, check=not own, strict=True, model_name=case["testcase"], **options
    )
    if own:
        passed_on = {
            k: case[k] for k in ("rtol", "atol", "input_params", "inputs_as_nchw", "outputs_as_nchw") if k in case
        }
        same, text = allclose(fn, model, inputs, enable_double_precision=double, **passed_on)
        if not same:
            raise Error(text)
    check = case.get("post_check_onnx_graph")
    if check is not None and check(model) is False:
        raise Error("post_check_onnx_graph says that the model is not as it should be")


def _numbers(shapes: Sequence[Sequence[int | str]]) -> list[tuple[int, ...]]:
    """The shapes with a distinct number for each symbol, starting at 3."""
    import jax

    from sardonyx._check import values as _compare

    scope = jax.export.SymbolicScope()
    dims = [jax.export.symbolic_shape(",".join(map(str, s)), scope=scope) if s else () for s in shapes]
    symbols = sorted({name for shape in dims for d in shape for name in _compare.symbols_of(d)})
    sizes = {name: 3 + 2 * i for i, name in enumerate(symbols)}
    return [tuple(_compare.size_at(d, sizes) for d in shape) for shape in dims]


def _made(value: Any, dtype: Any) -> Any:
    if isinstance(value, Later):
        return value.make(dtype)
    if isinstance(value, dict):
        return {k: _made(v, dtype) for k, v in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_made(v, dtype) for v in value)
    return value


def _name(constructor: Any) -> str:
    return getattr(constructor, "__name__", type(constructor).__name__)
