"""Keras 3 on JAX: models as they are, as the chapter of docs/guide/jax.md exports them, and by Keras' own stateless calls."""

import contextlib
import io
import os
import re
import tempfile
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"

import jax
import jax.numpy as jnp
import keras
import numpy as np
from catalog import normal, program
from keras import layers

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "jax.md"


@program("keras")
def keras_page():
    """Runs the blocks of the chapter in order, which print what the page says; its first model is compared once more."""
    chapter = PAGE.read_text().partition("\n## Keras\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```python\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", chapter, re.MULTILINE | re.DOTALL)
    scope = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for source, expected in blocks:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(source, str(PAGE), "exec"), scope)
            assert out.getvalue().strip() == expected.strip(), f"docs/guide/jax.md: it printed {out.getvalue()}"
    assert len(blocks) >= 3
    return scope["model"], [normal(5, 7, 3)]


@program("keras")
def keras_bidirectional_model_as_it_is():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([
        keras.Input((7, 3)), layers.Bidirectional(layers.LSTM(5, return_sequences=True)),
        layers.Bidirectional(layers.LSTM(4), merge_mode="sum"), layers.BatchNormalization(), layers.Dropout(0.5), layers.Dense(2),
    ])  # fmt: skip
    return model, [normal(2, 7, 3)]


@program("keras")
def keras_masked_model_of_two_inputs():
    keras.utils.set_random_seed(1)
    words, numbers = keras.Input((7,), dtype="int32", name="words"), keras.Input((3,), name="numbers")
    encoded = layers.Bidirectional(layers.LSTM(4))(layers.Embedding(13, 5, mask_zero=True)(words))
    model = keras.Model({"words": words, "numbers": numbers}, layers.Dense(2)(layers.Concatenate()([encoded, numbers])))
    tokens = np.array([[1, 5, 3, 0, 0, 0, 0], [2, 2, 4, 7, 1, 0, 0]], np.int32)
    return model, [{"words": tokens, "numbers": normal(2, 3)}]


def _stateless(model):
    trainable = [v.value for v in model.trainable_variables]
    rest = [v.value for v in model.non_trainable_variables]
    return trainable, rest


def _call(model, **options):
    """The model as a function of its input: Keras's own way to call it without side effects."""
    trainable, rest = _stateless(model)
    return lambda x: model.stateless_call(trainable, rest, x, **options)[0]


@program("keras")
def keras_cnn():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([
        keras.Input((13, 11, 3)), layers.Rescaling(2.0, -1.0), layers.Conv2D(5, 3, padding="same", activation="relu"),
        layers.BatchNormalization(), layers.MaxPooling2D(), layers.SeparableConv2D(7, 3, activation="swish"),
        layers.DepthwiseConv2D(3, padding="same"), layers.GroupNormalization(7), layers.UpSampling2D(interpolation="bilinear"),
        layers.Conv2DTranspose(3, 3, strides=2), layers.GlobalAveragePooling2D(), layers.Dropout(0.3), layers.Dense(5, activation="softmax"),
    ])  # fmt: skip
    return _call(model), [normal(2, 13, 11, 3)]


@program("keras")
def keras_captured_model():
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.Input((5,)), layers.Dense(7, activation="gelu"), layers.LayerNormalization(), layers.Dense(3)]
    )
    return lambda x: model(x, training=False), [normal(2, 5)]


@program("keras")
def keras_causal_transformer():
    keras.utils.set_random_seed(1)
    tokens = keras.Input((7,), dtype="int32")
    x = layers.Embedding(13, 6)(tokens) + layers.Embedding(7, 6)(keras.ops.arange(7))
    attended = layers.MultiHeadAttention(2, 3)(x, x, use_causal_mask=True)
    x = layers.LayerNormalization()(x + attended)
    x = layers.LayerNormalization()(x + layers.Dense(6)(layers.Dense(11, activation="gelu")(x)))
    model = keras.Model(tokens, layers.Dense(13)(x))
    return _call(model), [np.random.default_rng(7).integers(0, 13, (2, 7)).astype(np.int32)]


@program("keras")
def keras_grouped_attention_with_mask():
    keras.utils.set_random_seed(1)
    tokens = keras.Input((7,), dtype="int32")
    x = layers.Embedding(13, 6, mask_zero=True)(tokens)
    x = layers.GroupQueryAttention(3, 4, 2)(x, x)
    model = keras.Model(tokens, layers.GlobalAveragePooling1D()(x))
    return _call(model), [np.array([[1, 5, 3, 0, 0, 0, 0], [2, 2, 4, 7, 1, 0, 0]], np.int32)]


@program("keras")
def keras_bidirectional_rnn():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([
        keras.Input((7, 3)), layers.Bidirectional(layers.LSTM(5, return_sequences=True)),
        layers.Bidirectional(layers.GRU(3, return_sequences=True)), layers.SimpleRNN(5), layers.Dense(2),
    ])  # fmt: skip
    return _call(model), [normal(2, 7, 3)]


@program("keras")
def keras_masked_rnn():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([
        keras.Input((7,), dtype="int32"), layers.Embedding(13, 5, mask_zero=True), layers.Bidirectional(layers.LSTM(3)),
    ])  # fmt: skip
    return _call(model), [np.array([[1, 5, 3, 0, 0, 0, 0], [2, 2, 4, 7, 1, 0, 0]], np.int32)]


@program("keras")
def keras_stateless_training():
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.Input((5,)), layers.Dense(7, activation="relu"), layers.BatchNormalization(), layers.Dense(3)]
    )
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)
    trainable, rest = _stateless(model)
    state = [v.value for v in optimizer.variables]

    def step(trainable, rest, state, x, y):
        def loss(trainable):
            out, after = model.stateless_call(trainable, rest, x, training=True)
            return jnp.mean((out - y) ** 2), after

        (value, rest), gradients = jax.value_and_grad(loss, has_aux=True)(trainable)
        trainable, state = optimizer.stateless_apply(state, gradients, trainable)
        return value, trainable, rest, state

    return step, [trainable, rest, state, normal(11, 5), normal(11, 3, seed=1)]


@program("keras")
def keras_ops_and_preprocessing():
    def compute(x):
        k = keras.ops
        resized = k.image.resize(x, (7, 9))
        return (
            resized, k.image.resize(x, (7, 9), interpolation="nearest"), k.image.resize(x, (17, 15), interpolation="bicubic"),
            k.segment_sum(x[0, :, 0, 0], jnp.arange(13) % 3, 3), k.top_k(x[0, 0], 2), k.in_top_k(jnp.array([1, 0]), x[0, 0, :2], 1),
            k.nn.moments(x, [1, 2]), k.logsumexp(x, axis=-1), k.extract_sequences(x[0, :, 0, 0], 5, 2),
        )  # fmt: skip

    return compute, [normal(2, 13, 11, 3)]
