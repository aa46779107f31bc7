"""Expands a primitive without a lowering into the JAX program that JAX itself runs for it, if there is
one."""

import functools


def expansion(equation):
    """A ClosedJaxpr of the equation's operands, or None where JAX has only a kernel."""
    import jax

    ways = (_of_keys, _of_equinox_errors, _of_pallas, _of_hijax, lambda equation: _program(equation.primitive))
    fn = next(filter(None, (way(equation) for way in ways)), None)
    if fn is None:
        return None
    literals = {i: v.val for i, v in enumerate(equation.invars) if hasattr(v, "val")}

    def run(*operands):
        # Implementations, such as Equinox's, may check which operands are constant.
        operands = [literals.get(i, x) for i, x in enumerate(operands)]
        results = fn(*operands, **equation.params)
        return results if equation.primitive.multiple_results else [results]

    try:
        closed = jax.make_jaxpr(run)(*(jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in equation.invars))
    except Exception:
        return None  # reported as a primitive without a lowering
    if any(e.primitive is equation.primitive for e in closed.jaxpr.eqns):
        return None
    wanted = [(v.aval.shape, v.aval.dtype) for v in equation.outvars]
    return closed if [(v.shape, v.dtype) for v in closed.out_avals] == wanted else None


def _of_keys(equation):
    """The program that a generator other than JAX's default runs for random_seed, random_split,
    random_fold_in and random_bits. Under vmap that program is not always a map: rbg draws the bits of all
    keys from the first."""
    import jax

    try:
        from jax._src.random import prng
    except ImportError:
        from jax._src import prng
    name = equation.primitive.name
    if name not in ("random_seed", "random_split", "random_fold_in", "random_bits"):
        return None
    key = (equation.outvars if name == "random_seed" else equation.invars)[0].aval
    impl = key.dtype._impl
    program = getattr(prng, f"{name}_impl_base")

    def run(first, *rest, **params):
        with jax.threefry_partitionable(equation.ctx.threefry_partitionable):
            if name == "random_seed":
                return prng.random_wrap(program(first, **params), impl=impl)
            words = prng.random_unwrap(first)
            if name == "random_fold_in":
                return prng.random_wrap(program(impl, words, *rest, key.shape), impl=impl)
            found = program(impl, words, key.ndim, **params)
            return found if name == "random_bits" else prng.random_wrap(found, impl=impl)

    return run


def _of_equinox_errors(equation):
    """The value of `eqx.error_if` where it would raise, which a model cannot do: NaN, or the largest integer,
    as with EQX_ON_ERROR=nan."""
    import jax.numpy as jnp

    function = getattr(equation.params.get("callback"), "callback_func", None)
    if equation.primitive.name != "pure_callback" or getattr(function, "__module__", None) != "equinox._errors":
        return None

    def run(*_, **__):
        return [jnp.full(v.aval.shape, wrong(v.aval.dtype), v.aval.dtype) for v in equation.outvars]

    def wrong(dtype):
        if jnp.issubdtype(dtype, jnp.integer):
            return jnp.iinfo(dtype).max
        return True if dtype == jnp.bool_ else jnp.nan

    return run


_MOST_EQUATIONS = 1000  # of an expanded Pallas kernel


def _of_pallas(equation):
    """A Pallas kernel as JAX interprets it: a loop over the grid that reads and writes blocks."""
    if equation.primitive.name != "pallas_call" or len(equation.params["jaxpr"].eqns) > _MOST_EQUATIONS:
        return None
    from jax._src.pallas.hlo_interpreter import pallas_call_hlo_interpret

    params = {k: v for k, v in equation.params.items() if k != "interpret"}
    return lambda *operands, **_: pallas_call_hlo_interpret(*operands, **params)


def _of_hijax(equation):
    """Expands a hijax primitive as JAX does before it compiles."""
    return equation.primitive.to_lojax if equation.primitive.name == "call_hi_primitive" else None


def without_high_values(closed):
    """The ClosedJaxpr with arrays in place of values of hijax types, which `jax.jit` replaces as well before
    it compiles."""
    from sardonyx._trace.data.sizes import _bodies

    if not getattr(closed.jaxpr, "is_high", False):
        return closed
    todo, variables = [closed.jaxpr], []
    for jaxpr in todo:
        todo.extend(inner for eqn in jaxpr.eqns for inner in _bodies(eqn))
        variables += [v for eqn in jaxpr.eqns for v in (*eqn.invars, *eqn.outvars)]
    if not any(getattr(v.aval, "is_high", False) for v in variables):
        return closed
    from jax._src.interpreters import partial_eval

    lower = getattr(partial_eval, "lower_jaxpr2", None) or partial_eval.lower_jaxpr  # older JAX has the second only
    return lower(closed)


def _program(primitive):
    """The function that `mlir.lower_fun` was given for the primitive, or the primitive's own implementation
    in Python."""
    from jax._src import dispatch
    from jax._src.interpreters import mlir

    tables = [getattr(mlir, "_platform_specific_lowerings", {}).get("cpu", {}), getattr(mlir, "_lowerings", {})]
    for table in tables:
        rule = getattr(table.get(primitive), "rule", None)
        if getattr(rule, "__qualname__", "").startswith("lower_fun."):
            names, cells = rule.__code__.co_freevars, rule.__closure__
            return dict(zip(names, (c.cell_contents for c in cells), strict=True)).get("fun")
    implementation = primitive.__dict__.get("impl")
    runs_itself = isinstance(implementation, functools.partial) and implementation.func is dispatch.apply_primitive
    return None if runs_itself else implementation
