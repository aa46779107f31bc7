from collections.abc import Sequence, Set

from sardonyx._sardonyx import coreml as coreml, ir as ir


def version() -> str: ...

def prepare() -> None:
    """
    Maps the code of this module and makes the tables of lowerings and passes, once, so that a first export is like the next. Needs JAX.
    """

def infer_types(model: bytes, *, forget_declared: bool = True) -> tuple:
    """
    Types that inference finds for the values of an ONNX model's main graph: (name -> type, messages).
    """

class Program:
    """A jaxpr that was read into Sardonyx's own graph."""

    def text(self, provenance: bool = False) -> str:
        """The program in text form."""

    def save(self, path: str) -> None:
        """Writes the program as text, and its constants beside it."""

    def num_nodes(self) -> int:
        """Equations, nested ones included."""

    def op_counts(self) -> dict[str, int]:
        """Equations by primitive."""

    def inputs(self) -> list[str]: ...

    def outputs(self) -> list[str]: ...

    def record(self) -> str:
        """Its equations in text, one per line."""

    def primitives(self, libraries: Sequence[str] = []) -> list[tuple[str, int, str, list[str]]]:
        """
        Per primitive: its name, how many equations it has, whose lowering ("": none), and the lines where they stand.
        """

    def constants(self) -> list: ...

class ApartModel:
    """A model's message, and the bytes of its large tensors apart from it."""

    def message(self) -> bytes: ...

    @property
    def file_bytes(self) -> int: ...

    def __len__(self) -> int: ...

    def bytes_at(self, arg: int, /) -> bytes:
        """Of the tensor whose external data has that offset."""

class Converted:
    """An ONNX model that was made and not yet written."""

    @property
    def lower_seconds(self) -> float: ...

    @property
    def not_converged(self) -> list[str]: ...

    @property
    def optimize_seconds(self) -> float: ...

    def num_nodes(self) -> int: ...

    def op_counts(self) -> dict[str, int]: ...

    def serialize(self) -> bytes:
        """The bytes of an .onnx file."""

    def serialize_apart(self, arg: int, /) -> ApartModel:
        """The message, with tensors of `threshold` bytes and more left out."""

    def to_ir(self) -> object: ...

    def save(self, path: str, one_file: bool = False) -> int:
        """
        Writes an .onnx file, and its data file where one is needed. Returns their size.
        """

def convert(program: Program, name: str = 'jax_model', opset: int = 23, passes: Sequence[str] = [], strict: bool = False, provenance: str = 'line', normalization: str = 'auto', dump: str = '', target: str = '', lowerings: dict = {}, outline: bool = False, libraries: Sequence[str] = [], pass_options: Sequence[tuple[str, str]] = [], with_steps: bool = False) -> Converted:
    """Lowers and optimizes a program."""

def write_steps(path: str, converted: Converted) -> None:
    """
    Writes the steps of a conversion that was made with_steps, for `sardonyx view`.
    """

class Lowering:
    def late(self) -> object: ...

    def num_operands(self) -> int: ...

    def num_results(self) -> int: ...

    def operand(self, arg: int, /) -> object: ...

    def graph(self) -> object: ...

    def placeholder(self, arg0: int, arg1: str, /) -> object: ...

    def is_filled(self, arg: object, /) -> bool: ...

    def constant(self, arg0: object, arg1: str, /) -> object: ...

    def cast_like(self, arg0: object, arg1: object, /) -> object: ...

    def dim(self, arg: str, /) -> object:
        """A size at run time: i64[]."""

    def dim_origin(self, arg: str, /) -> object: ...

    def add_input(self, arg0: str, arg1: object, /) -> object: ...

    def add_output(self, arg0: object, arg1: str, /) -> None: ...

    def fresh_name(self, arg: str, /) -> str: ...

def load_plugin(path: str) -> list[str]:
    """
    The primitives that a plugin in a shared object has lowerings for. It stays loaded.
    """

def target(name: str) -> tuple:
    """
    A runtime by name: its own name, the newest opset and the newest IR version that it loads.
    """

def load_program(path: str) -> Program:
    """Reads what Program.save() wrote."""

def read_stablehlo(module: str | bytes) -> Program:
    """
    Reads a StableHLO module, a path or bytes, as a program of JAX's primitives.
    """

def weight_names(root: object, jaxpr: object) -> list[str]:
    """
    A name per const of a ClosedJaxpr: where below `root` it is found, as a path of attributes, keys and positions; "" where it is not.
    """

def import_jaxpr(jaxpr: object, name: str = 'jax_model', input_names: Sequence[str] = [], output_names: Sequence[str] = [], const_names: Sequence[str] = [], nchw_inputs: Sequence[int] = [], nchw_outputs: Sequence[int] = [], provenance: str = 'line', facts: Sequence[str] = [], data_sizes: Sequence[str] = [], keep_equations: Set[str] = ...) -> Program:
    """Reads a jax.core.ClosedJaxpr."""

def optimize_path(input: str, output: str, options: dict) -> dict: ...

def optimize_bytes(model: bytes, folder: str, options: dict) -> tuple: ...

def optimize_model(model: ir.ModelBase, options: dict) -> tuple:
    """Optimizes a copy of an ir.Model: the result, and a report."""

def list_passes() -> list: ...

def read_pipeline(text: str) -> tuple[list[str], list[tuple[str, str]]]:
    """The passes and options of a list, or of the file that is named."""

def list_presets() -> dict: ...

def info(model: object, input_shapes: dict) -> dict:
    """What a model, a path or bytes, consists of."""

def node_origins(model: object) -> list:
    """Where the nodes of each graph come from."""

def check(model: object) -> dict:
    """What is wrong with a model."""

def page(of: object, title: str, passes: Sequence[str], times: Sequence[Sequence[float]] = []) -> str:
    """The page of a model."""

def diff_page(before: object, after: object, name_before: str, name_after: str, times_before: Sequence[Sequence[float]] = [], times_after: Sequence[Sequence[float]] = []) -> str:
    """The page of two models."""

def diff(before: object, after: object) -> dict:
    """How the texts of two models differ."""

def verify(before: object, after: object, numerics: str, target: str, rtol: float | None, atol: float | None) -> dict:
    """Whether two models compute the same on seeded inputs."""

def half_share(model: object) -> float:
    """
    How far results may be off, as a share of the largest element: 0 if nothing is in half precision.
    """

def require_output_name(path: str) -> None:
    """Raises for a path that no ONNX model is written to."""

def evaluate(model: ir.ModelBase, inputs: list, seed: int, memory_limit: int, max_steps: int, fast: bool) -> list:
    """Runs the model's main graph."""

def can_evaluate(domain: str, name: str, version: int) -> bool:
    """Whether there is a kernel for the operator."""
