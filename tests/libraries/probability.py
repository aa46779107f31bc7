"""Densities, samplers, flows, Gaussian processes."""

import blackjax
import distrax
import equinox as eqx
import flowjax.bijections
import flowjax.distributions
import flowjax.flows
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import tinygp
from catalog import normal, positive, program
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.util import log_density
from tensorflow_probability.substrates import jax as tfp

tfd, tfb = tfp.distributions, tfp.bijectors


def _regression(x, y=None):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))
    s = numpyro.sample("s", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.Normal(x @ w, s), obs=y)


@program("numpyro")
def numpyro_log_density():
    def density(x, y, w, s):
        return log_density(_regression, (x, y), {}, {"w": w, "s": s})[0]

    return jax.value_and_grad(density, argnums=2), [normal(11, 3), normal(11), normal(3, seed=1), np.float32(0.7)]


@program("numpyro")
def numpyro_many_densities():
    def densities(x, n, p):
        return (
            dist.Gamma(2.0, 1.5).log_prob(x), dist.Beta(2.0, 3.0).log_prob(p), dist.StudentT(3.0).log_prob(x),
            dist.Poisson(2.5).log_prob(n), dist.NegativeBinomial2(2.0, 1.5).log_prob(n), dist.VonMises(0.3, 2.0).log_prob(x),
            dist.Dirichlet(jnp.ones(3) * 1.5).log_prob(jax.nn.softmax(x[:3])), dist.LKJCholesky(3, 1.2).log_prob(jnp.eye(3)),
            dist.MultivariateNormal(jnp.zeros(3), jnp.eye(3) * 2).log_prob(x[:3]), dist.Weibull(1.3, 0.9).log_prob(x),
            dist.ZeroInflatedPoisson(0.2, 2.0).log_prob(n), dist.OrderedLogistic(x[:3], jnp.array([-1.0, 1.0])).log_prob(n[:3] % 3),
        )  # fmt: skip

    p = np.random.default_rng(7).random(5).astype(np.float32) * 0.9 + 0.05
    return densities, [positive(5), np.array([0, 3, 1, 7, 2], np.int32), p]


@program("numpyro")
def numpyro_predictive_draws():
    def draw(key, x):
        with numpyro.handlers.seed(rng_seed=key):
            trace = numpyro.handlers.trace(_regression).get_trace(x)
        return trace["y"]["value"], trace["w"]["value"]

    return draw, [jax.random.key(3), normal(7, 3)]


@program("numpyro")
def numpyro_svi_step():
    guide = AutoNormal(_regression)
    svi = SVI(_regression, guide, numpyro.optim.Adam(0.05), Trace_ELBO())
    x, y = normal(11, 3), normal(11)
    state = svi.init(jax.random.key(0), x, y)

    def step(state, x, y):
        for _ in range(2):
            state, loss = svi.update(state, x, y)
        return svi.get_params(state), loss

    return step, [state, x, y]


@program("numpyro", tolerance=2e-3)  # fifteen steps of a sampler amplify how sums are rounded
def numpyro_nuts():
    x, y = normal(11, 3), normal(11)

    def sample(key, x, y):
        mcmc = MCMC(NUTS(_regression, max_tree_depth=3), num_warmup=5, num_samples=5, progress_bar=False)
        mcmc.run(key, x, y)
        return mcmc.get_samples()

    return sample, [jax.random.key(3), x, y]


def _target(x):
    return -0.5 * jnp.sum((x - 1.0) ** 2 / jnp.array([1.0, 2.0, 0.5]))


def _chain(kernel, state, steps=7):
    def run(key, state):
        def one(state, key):
            state, _ = kernel.step(key, state)
            return state, state.position

        return jax.lax.scan(one, state, jax.random.split(key, steps))

    return run, [jax.random.key(3), state]


@program("blackjax")
def blackjax_hmc():
    kernel = blackjax.hmc(_target, 0.1, jnp.ones(3), 5)
    return _chain(kernel, kernel.init(jnp.asarray(normal(3))))


@program("blackjax")
def blackjax_nuts():
    kernel = blackjax.nuts(_target, 0.1, jnp.ones(3))
    return _chain(kernel, kernel.init(jnp.asarray(normal(3))), steps=3)


@program("blackjax")
def blackjax_mala():
    kernel = blackjax.mala(_target, 0.1)
    return _chain(kernel, kernel.init(jnp.asarray(normal(3))))


@program("blackjax")
def blackjax_elliptical_slice():
    kernel = blackjax.elliptical_slice(_target, mean=jnp.zeros(3), cov=jnp.eye(3))
    return _chain(kernel, kernel.init(jnp.asarray(normal(3))), steps=3)


@program("blackjax")
def blackjax_resampling():
    from blackjax.smc import resampling

    def draw(key, w):
        w = w / w.sum()
        return resampling.systematic(key, w, 7), resampling.multinomial(key, w, 7), resampling.stratified(key, w, 7)

    return draw, [jax.random.key(3), positive(7)]


@program("distrax")
def distrax_densities():
    def densities(x, key):
        mixture = distrax.MixtureSameFamily(
            distrax.Categorical(logits=jnp.array([0.1, 0.5, -0.3])), distrax.Normal(jnp.arange(3.0), jnp.ones(3))
        )
        squashed = distrax.Transformed(distrax.Normal(0.2, 1.0), distrax.Tanh())
        return (
            mixture.log_prob(x), squashed.log_prob(jnp.tanh(x) * 0.9), distrax.MultivariateNormalTri(jnp.zeros(5)).log_prob(x),
            distrax.Gumbel(0.1, 1.2).log_prob(x), distrax.Normal(x, 1.0).sample(seed=key), distrax.Categorical(logits=x).entropy(),
        )  # fmt: skip

    return densities, [normal(5), jax.random.key(3)]


@program("distrax")
def distrax_spline_and_coupling():
    def transform(x, parameters):
        spline = distrax.RationalQuadraticSpline(parameters, range_min=-3.0, range_max=3.0)
        y, log_det = spline.forward_and_log_det(x)
        return y, log_det, spline.inverse(y)

    return transform, [normal(7), normal(7, 3 * 5 + 1)]


@program("distrax")
def distrax_hidden_markov_model():
    def smooth(observations):
        hmm = distrax.HMM(
            trans_dist=distrax.Categorical(probs=jnp.array([[0.9, 0.1], [0.3, 0.7]])),
            init_dist=distrax.Categorical(probs=jnp.array([0.5, 0.5])),
            obs_dist=distrax.Normal(jnp.array([-1.0, 1.0]), jnp.ones(2)),
        )
        return hmm.forward_backward(observations), hmm.viterbi(observations)

    return smooth, [normal(7)]


def flow_of(make, **options):
    return make(jax.random.key(0), base_dist=flowjax.distributions.Normal(jnp.zeros(3)), **options)


@program("flowjax")
def flowjax_coupling_flow():
    flow = flow_of(flowjax.flows.coupling_flow, flow_layers=2, nn_width=5)
    return lambda x: flow.log_prob(x), [normal(5, 3)]


@program("flowjax")
def flowjax_masked_autoregressive_draws():
    spline = flowjax.bijections.RationalQuadraticSpline(knots=5, interval=4)
    flow = flow_of(flowjax.flows.masked_autoregressive_flow, flow_layers=2, nn_width=5, transformer=spline)
    return lambda key, x: (flow.sample(key, (2,)), flow.log_prob(x)), [jax.random.key(3), normal(5, 3)]


@program("flowjax")
def flowjax_block_neural_autoregressive():
    flow = flow_of(flowjax.flows.block_neural_autoregressive_flow, nn_block_dim=2, flow_layers=1)
    return lambda x: flow.log_prob(x), [normal(5, 3)]


@program("tinygp")
def tinygp_likelihood_and_prediction():
    def predict(x, y, at, scale):
        kernel = 1.5 * tinygp.kernels.Matern52(scale) + tinygp.kernels.ExpSquared(2.0)
        process = tinygp.GaussianProcess(kernel, x, diag=0.1)
        likelihood, conditioned = process.condition(y, at)
        return likelihood, conditioned.loc, conditioned.variance

    return predict, [np.sort(normal(11)), normal(11, seed=1), normal(5, seed=2), np.float32(0.8)]


@program("tinygp")
def tinygp_quasiseparable():
    def likelihood(x, y, scale):
        kernel = tinygp.kernels.quasisep.Matern32(scale) + tinygp.kernels.quasisep.SHO(omega=2.0, quality=0.7)
        return tinygp.GaussianProcess(kernel, x, diag=0.1).log_probability(y)

    return jax.value_and_grad(likelihood, argnums=2), [np.sort(normal(11)), normal(11, seed=1), np.float32(0.8)]


@program("tensorflow_probability")
def tfp_densities():
    def densities(x, p, n):
        return (
            tfd.Normal(0.1, 1.2).log_prob(x), tfd.Gamma(2.0, 1.0).log_prob(p), tfd.Kumaraswamy(1.5, 2.0).log_prob(p / (1 + p)),
            tfd.MultivariateNormalTriL(jnp.zeros(5), jnp.eye(5)).log_prob(x), tfd.Poisson(2.0).log_prob(n),
            tfd.MixtureSameFamily(tfd.Categorical(logits=jnp.zeros(3)), tfd.Normal(jnp.arange(3.0), 1.0)).log_prob(x),
            tfd.TransformedDistribution(tfd.Normal(0.0, 1.0), tfb.Softplus()).log_prob(p), tfd.Gamma(2.0, 1.0).cdf(p),
            tfd.Beta(2.0, 3.0).cdf(p / (1 + p)), tfd.kl_divergence(tfd.Normal(x, 1.0), tfd.Normal(0.0, p)),
        )  # fmt: skip

    return densities, [normal(5), positive(5), np.array([0, 1, 2, 3, 5], np.float32)]


@program("tensorflow_probability")
def tfp_bijectors():
    def transform(x):
        chain = tfb.Chain([tfb.Softplus(), tfb.Shift(0.5), tfb.Scale(2.0)])
        cholesky = tfb.FillScaleTriL()
        y = chain.forward(x)
        return (
            y,
            chain.inverse(y),
            chain.forward_log_det_jacobian(x),
            cholesky.forward(x),
            tfb.CorrelationCholesky().forward(x[:3]),
        )

    return transform, [normal(6)]


@program("tensorflow_probability")
def tfp_special_functions():
    def compute(x):
        return (
            tfp.math.bessel_ive(1.5, x), tfp.math.log_bessel_kve(0.7, x), tfp.math.lbeta(x, 2.0), tfp.math.erfcx(x),
            tfp.math.lambertw(x), tfp.math.log_gamma_correction(x + 9), tfp.math.owens_t(x, 0.5),
        )  # fmt: skip

    return compute, [positive(5)]


@program("tensorflow_probability")
def tfp_hamiltonian_monte_carlo():
    def sample(key, x):
        kernel = tfp.mcmc.HamiltonianMonteCarlo(_target, step_size=0.1, num_leapfrog_steps=3)
        return tfp.mcmc.sample_chain(5, current_state=x, kernel=kernel, trace_fn=None, seed=key)

    return sample, [jax.random.key(3), normal(3)]


@program("tensorflow_probability")
def tfp_kalman_filter():
    def likelihood(y, s):
        model = tfp.sts.LocalLinearTrend(
            level_scale_prior=tfd.LogNormal(0.0, 1.0), slope_scale_prior=tfd.LogNormal(0.0, 1.0)
        )
        ssm = model.make_state_space_model(7, [s, s])
        return ssm.log_prob(y[:, None])

    return likelihood, [normal(7), np.float32(0.5)]


@program("equinox")
def equinox_stateful_norm():
    norm, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(3, axis_name="batch", mode="batch")

    def step(x):
        y, after = jax.vmap(norm, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(x, state)
        return y, after

    return step, [normal(7, 3)]
