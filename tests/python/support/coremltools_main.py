"""What coremltools' main branch does otherwise than its release 9.0, put into the installed 9.0: passes are held to the branch."""

import math

import coremltools as ct
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil.passes.defs import lower_complex_dialect_ops as transforms
from coremltools.converters.mil.mil.passes.defs.quantization import add_int16_cast


def matrices(n_fft, onesided=False):
    """cos and sin of 2 pi (j k mod n) / n."""
    n = mb.cast(x=n_fft, dtype="fp32")
    rows = mb.add(x=mb.floor_div(x=n, y=2.0), y=1.0) if onesided else n
    j, k = mb.range_1d(start=0.0, end=rows, step=1.0), mb.range_1d(start=0.0, end=n, step=1.0)
    j, k = mb.reshape(x=j, shape=[-1, 1]), mb.reshape(x=k, shape=[1, -1])
    angle = mb.mod(x=mb.matmul(x=j, y=k), y=n)
    angle = mb.real_div(x=mb.mul(x=angle, y=2 * math.pi), y=n)
    return mb.cos(x=angle), mb.sin(x=angle)


def each_parameter_by_itself(should_cast):
    """Not the type that was looked at last, whatever op it belonged to."""

    def look(self, op, name):
        self._target_dtype = "int16"
        return should_cast(self, op, name)

    return look


if ct.__version__ == "9.0":
    transforms._calculate_dft_matrix = matrices
    add_int16_cast.should_cast_parameter = each_parameter_by_itself(add_int16_cast.should_cast_parameter)
