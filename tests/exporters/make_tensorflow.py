"""Export small Keras models by tf2onnx.

    make_tensorflow.py FOLDER [--only TEXT ...]

Runs in an environment of its own (requirements-tensorflow.txt). What is there already is kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": ""}
import numpy as np
import onnx
import tensorflow as tf
import tf2onnx
from kept import Feeds, make_all, seed_of
from keras import Model, layers, utils

ROWS = (5, 3, 1)


def mobile(x):
    for width, stride in ((8, 2), (12, 2), (12, 1)):
        y = layers.DepthwiseConv2D(3, stride, "same", use_bias=False)(x)
        y = layers.ReLU(6.0)(layers.BatchNormalization()(y))
        y = layers.BatchNormalization()(layers.Conv2D(width, 1, use_bias=False)(y))
        x = layers.Add()([x, y]) if stride == 1 and x.shape[-1] == width else y
    return layers.Dense(5, "softmax")(layers.GlobalAveragePooling2D()(x))


def residual(x):
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(8, 3, padding="same")(x)))
    x = layers.MaxPooling2D(3, 2, "same")(x)
    for width in (8, 12):
        y = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(width, 3, padding="same")(x)))
        y = layers.BatchNormalization()(layers.Conv2D(width, 3, padding="same")(y))
        x = layers.ReLU()(layers.Add()([layers.Conv2D(width, 1)(x), y]))
    return layers.Dense(5)(layers.Flatten()(layers.AveragePooling2D(2)(x)))


def unet(x):
    a = layers.Conv2D(6, 3, padding="same", activation="relu")(x)
    b = layers.Conv2D(8, 3, 2, padding="same", activation="elu")(a)
    up = layers.Concatenate()([layers.UpSampling2D(2)(b), a])
    c = layers.Conv2DTranspose(6, 3, 2, padding="same")(layers.LeakyReLU()(b))
    return layers.Conv2D(2, 1, activation="sigmoid")(layers.Concatenate()([up, c]))


def transformer(x):
    x = layers.Embedding(61, 16)(x)
    y = layers.MultiHeadAttention(2, 8)(x, x, use_causal_mask=True)
    x = layers.LayerNormalization()(layers.Add()([x, y]))
    y = layers.Dense(16)(layers.Dense(32, "silu")(x))
    return layers.Dense(7)(layers.LayerNormalization()(layers.Add()([x, y])))


def recurrent(x):
    x = layers.Bidirectional(layers.LSTM(6, return_sequences=True))(layers.Embedding(61, 8)(x))
    return layers.Dense(3, "tanh")(layers.GRU(5)(x))


def temporal(x):
    for rate in (1, 2, 4):
        y = layers.Conv1D(8, 3, padding="causal", dilation_rate=rate, activation="swish")(x)
        x = y if x.shape[-1] != 8 else layers.Add()([x, y])
    return layers.Dense(2)(layers.GlobalMaxPooling1D()(x))


def dense(x):
    x = layers.Dropout(0.1)(layers.Dense(11, "selu")(layers.BatchNormalization()(x)))
    return layers.Dense(3, "softmax")(layers.Dense(7, "softplus")(x))


IMAGE, WORDS = (16, 24, 3), (9,)
MODELS: dict[str, tuple[Callable, tuple[int, ...]]] = {
    "mobile": (mobile, IMAGE),
    "residual": (residual, IMAGE),
    "unet": (unet, IMAGE),
    "transformer": (transformer, WORDS),
    "recurrent": (recurrent, WORDS),
    "temporal": (temporal, (17, 5)),
    "dense": (dense, (7,)),
}


def export(name: str, opset: int, target: Path) -> list[Feeds]:
    build, shape = MODELS[name]
    utils.set_random_seed(seed_of(name) % 2**31)
    words = shape == WORDS
    x = layers.Input(shape, dtype="int32" if words else "float32", name="x")
    model = Model(x, build(x))
    function = tf.function(lambda x: model(x, training=False), [tf.TensorSpec((None, *shape), x.dtype, name="x")])
    proto, _ = tf2onnx.convert.from_function(function, function.input_signature, opset=opset)
    onnx.save(proto, target)
    rng = np.random.default_rng(seed_of(name))
    if words:
        return [{"x": rng.integers(0, 61, (n, *shape)).astype(np.int32)} for n in ROWS]
    return [{"x": rng.standard_normal((n, *shape)).astype(np.float32)} for n in ROWS]


if __name__ == "__main__":
    pairs = [(name, opset) for name in MODELS for opset in (13, 17)]
    make_all("tensorflow", __doc__, ((f"{name}.opset{opset}", partial(export, name, opset)) for name, opset in pairs))
