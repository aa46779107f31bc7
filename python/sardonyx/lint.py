"""The rules for plugins, checked in their source: `python -m sardonyx.lint FILE... [--diff]`.

A plugin runs inside the converter, so its faults show up late and far away. These rules find faults without
running anything. A comment disables a rule for its line: `# lint-plugin: allow RULE`.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

RULES = {
    "initializer-name": "initializers and constants are given a name where they are made",
    "outputs-string": "_outputs is a number or a list of names; a string would be taken for its letters",
    "onnx-protobuf": "plugins use sardonyx.ir only, never the messages and helpers of the onnx package",
    "initializers-write": "initializers are registered through the builder, never written into graph.initializers",
    "node-inputs": "the inputs of a node are changed with node.replace_input_with(), which keeps uses right",
    "manual-node": "operators are emitted through the builder; ir.Node is for what the builder cannot express",
    "smuggled-constant": "a value with a const_value is registered through the builder, or nothing will write it",
    "none-attribute": "None has no attribute type: leave the attribute out, or give an ir.Attr",
    "node-keyword": "name=, doc_string=, ... of builder.Op(...) are attributes; set them on value.producer()",
    "mixed-versions": "all nodes of a domain have one opset version",
    "callable-factory": "test cases name their callable with construct_and_call(...), not with callable_factory",
    "import-time-rng": "random keys are not made when a module is imported: with_rng_seed(), with_prng_key()",
    "reused-key": "a random key is used once: split it for each consumer",
    "syntax": "the file is Python",
}

_SAMPLERS_THAT_SHARE = {"split", "fold_in", "key_data", "wrap_key_data", "clone", "PRNGKey", "key"}
_RNG_MAKERS = {
    "jax.random.PRNGKey", "jax.random.key", "random.PRNGKey", "jrandom.PRNGKey", "jr.PRNGKey", "random.key", "jr.key",
    "PRNGKey", "nnx.Rngs", "flax.nnx.Rngs", "Rngs", "np.random.seed", "numpy.random.seed", "np.random.default_rng",
    "numpy.random.default_rng", "np.random.RandomState", "numpy.random.RandomState", "random.seed",
}  # fmt: skip
_LIST_CHANGES = {"append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse"}
_MAPPING_CHANGES = {"update", "setdefault", "__setitem__"}
_NODE_KEYWORDS = {"name", "doc_string", "metadata_props", "overload", "graph", "output"}
_ALLOW = re.compile(r"#\s*lint-plugin:\s*allow\s+([\w-]+(?:\s*,\s*[\w-]+)*)")


@dataclass(frozen=True, order=True)
class Finding:
    """A rule that a line breaks."""

    path: str
    line: int
    column: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.message} [{self.rule}]"


def _dotted(node: ast.AST) -> str:
    """'a.b.c' for names and attributes of names; '' for anything else at the root."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def _is_text(node: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr):
        return True
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str | bytes)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
        return _is_text(node.left) or (isinstance(node.op, ast.Add) and _is_text(node.right))
    if isinstance(node, ast.IfExp):
        return _is_text(node.body) or _is_text(node.orelse)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name):
            return node.func.id == "str"
        # ctx.fresh_name("y") is a string as well
        return isinstance(node.func, ast.Attribute) and (
            node.func.attr in ("fresh_name", "format") or _is_text(node.func.value)
        )
    return False


def _is_none(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_builder(node: ast.AST) -> bool:
    """Whether an expression looks like a builder: builder, ctx.builder, self._builder, ir.Builder(...),
    tape."""
    if isinstance(node, ast.Call):
        node = node.func
    last = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return last.lower().endswith(("builder", "tape"))


def _is_node(node: ast.AST) -> bool:
    """Whether an expression looks like a node: node, new_node, value.producer(), nodes[i]."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr in ("producer", "node")
    if isinstance(node, ast.Subscript):
        last = _dotted(node.value).rsplit(".", 1)[-1]
        return last in ("nodes", "graph")
    last = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return last == "node" or last.endswith("_node") or last == "producer"


class _Scope:
    """Values of names in a function or module, where a single assignment determines them."""

    def __init__(self, outer: _Scope | None, body: Iterable[ast.stmt]):
        self.outer = outer
        self.values: dict[str, ast.AST | None] = {}
        for node in _statements(body):
            targets: list[ast.AST] = []
            value: ast.AST | None = None
            if isinstance(node, ast.Assign):
                targets, value = node.targets, node.value
            elif isinstance(node, ast.AnnAssign):
                targets, value = [node.target], node.value
            elif isinstance(node, ast.AugAssign | ast.For):
                targets = [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    # Assigned twice: the value is unknown.
                    self.values[target.id] = None if target.id in self.values else value

    def resolve(self, node: ast.AST) -> ast.AST:
        for _ in range(8):
            if not isinstance(node, ast.Name):
                return node
            scope: _Scope | None = self
            while scope is not None and node.id not in scope.values:
                scope = scope.outer
            if scope is None or scope.values[node.id] is None:
                return node
            node = scope.values[node.id]  # type: ignore[assignment]
        return node


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a body and of the blocks in it, but not of functions and classes defined there."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for field in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, field, []))
        for handler in getattr(statement, "handlers", []):
            yield from _statements(handler.body)


class _Checker(ast.NodeVisitor):
    def __init__(self, path: str, tree: ast.Module):
        self.path = path
        self.findings: list[Finding] = []
        self.scope = _Scope(None, tree.body)
        self.functions = 0  # how many functions (or lambdas) the walk is inside of
        self.type_checking = 0
        self.versions: dict[str, int] = {}

    def report(self, node: ast.AST, rule: str, message: str) -> None:
        self.findings.append(Finding(self.path, node.lineno, node.col_offset + 1, rule, message))

    # -- scopes

    def _function(self, node) -> None:
        for decorator in getattr(node, "decorator_list", []):
            self.visit(decorator)
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        outer, versions = self.scope, self.versions
        body = node.body if isinstance(node.body, list) else []
        self.scope, self.versions = _Scope(outer, body), {}
        self.functions += 1
        for child in node.body if isinstance(node.body, list) else [node.body]:
            self.visit(child)
        if body:
            self._check_keys(body)
        self.functions -= 1
        self.scope, self.versions = outer, versions

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function

    def visit_If(self, node: ast.If) -> None:
        guarded = _dotted(node.test).endswith("TYPE_CHECKING")
        self.visit(node.test)
        self.type_checking += guarded
        for child in node.body:
            self.visit(child)
        self.type_checking -= guarded
        for child in node.orelse:
            self.visit(child)

    # -- imports

    def _import(self, node: ast.AST, module: str) -> None:
        root = module.split(".")[0]
        if self.type_checking:
            return
        if root == "onnx" or module.startswith("google.protobuf"):
            self.report(
                node,
                "onnx-protobuf",
                f"imports {module}: plugins use sardonyx.ir, not the onnx package's messages and helpers",
            )

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._import(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level == 0 and node.module:
            self._import(node, node.module)

    # -- writes

    def _target(self, target: ast.AST) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for item in target.elts:
                self._target(item)
            return
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Attribute):
            if target.value.attr == "initializers":
                self.report(
                    target,
                    "initializers-write",
                    "writes graph.initializers[...] directly; use builder.initializer(tensor, name=...) or builder.add_initializer_from_array",
                )
            if target.value.attr == "inputs" and _is_node(target.value.value):
                self.report(
                    target,
                    "node-inputs",
                    "changes an element of node.inputs; use node.replace_input_with(index, value)",
                )
        if isinstance(target, ast.Attribute) and target.attr in ("inputs", "_inputs") and _is_node(target.value):
            self.report(target, "node-inputs", f"assigns node.{target.attr}; use node.replace_input_with(index, value)")

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._target(target)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._target(node.target)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._target(node.target)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self._target(target)
        self.generic_visit(node)

    # -- metadata of test cases

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values):
            if isinstance(key, ast.Constant) and key.value == "callable_factory":
                self.report(
                    key, "callable-factory", "callable_factory is not supported; give callable=construct_and_call(...)"
                )
            if isinstance(key, ast.Constant) and key.value == "callable" and isinstance(value, ast.Lambda):
                self._check_lambda(value)
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg == "callable_factory":
            self.report(
                node.value,
                "callable-factory",
                "callable_factory is not supported; give callable=construct_and_call(...)",
            )
        if node.arg == "callable" and isinstance(node.value, ast.Lambda):
            self._check_lambda(node.value)
        self.generic_visit(node)

    def _check_lambda(self, node: ast.Lambda) -> None:
        for child in ast.walk(node.body):
            if isinstance(child, ast.Call) and _dotted(child.func) in _RNG_MAKERS:
                self.report(
                    child,
                    "import-time-rng",
                    f"a lambda that calls {_dotted(child.func)} makes the same module each time; use construct_and_call(...).with_rng_seed(...)",
                )

    # -- calls

    def visit_Call(self, node: ast.Call) -> None:
        name = _dotted(node.func)
        if not self.functions and name in _RNG_MAKERS:
            self.report(
                node,
                "import-time-rng",
                f"{name} runs when the module is imported; use with_rng_seed(...) or with_prng_key(...)",
            )
        if name in ("importlib.import_module", "import_module", "__import__") and node.args:
            module = self.scope.resolve(node.args[0])
            if isinstance(module, ast.Constant) and isinstance(module.value, str):
                self._import(node, module.value)
        if name in ("ir.Node", "ir.node", "onnx_ir.Node", "onnx_ir.node", "sardonyx.ir.Node", "sardonyx.ir.node"):
            self.report(
                node,
                "manual-node",
                f"{name}(...) bypasses the builder; use ctx.builder.<Operator>(...) or builder.op(...)",
            )
        if name.rsplit(".", 1)[-1] in ("Value", "val") and name.split(".")[0] in ("ir", "onnx_ir", "sardonyx"):
            for keyword in node.keywords:
                if keyword.arg == "const_value" and not _is_none(keyword.value):
                    self.report(
                        node,
                        "smuggled-constant",
                        f"{name}(const_value=...) is not registered anywhere; use builder.initializer(tensor, name=...)",
                    )
        if isinstance(node.func, ast.Attribute):
            self._method(node, node.func)
        self.generic_visit(node)

    def _method(self, node: ast.Call, func: ast.Attribute) -> None:
        receiver, method = func.value, func.attr
        keywords = {k.arg: k.value for k in node.keywords if k.arg is not None}
        splat = any(k.arg is None for k in node.keywords) or any(isinstance(a, ast.Starred) for a in node.args)
        if method == "initializer" or method.startswith("add_initializer_from_"):
            place = 1 if method == "initializer" else 0
            given = keywords.get("name", node.args[place] if len(node.args) > place else None)
            if given is None and not splat:
                self.report(node, "initializer-name", f"{method}(...) without a name; pass name=")
            elif given is not None:
                known = self.scope.resolve(given)
                if isinstance(known, ast.Constant) and not known.value:
                    self.report(
                        given,
                        "initializer-name",
                        f"{method}(...) with the name {known.value!r}; a name is a string that is not empty",
                    )
        if "_outputs" in keywords:
            given = self.scope.resolve(keywords["_outputs"])
            if _is_text(given):
                self.report(
                    keywords["_outputs"], "outputs-string", "_outputs is a string; put it into a list: _outputs=[name]"
                )
            elif isinstance(given, ast.List | ast.Tuple):
                for item in given.elts:
                    if isinstance(item, ast.Constant) and not isinstance(item.value, str):
                        self.report(
                            keywords["_outputs"], "outputs-string", f"_outputs holds names, and {item.value!r} is none"
                        )
        if isinstance(receiver, ast.Attribute) and receiver.attr == "initializers" and method in _MAPPING_CHANGES:
            self.report(
                node,
                "initializers-write",
                f"graph.initializers.{method}(...) bypasses the builder; use builder.initializer(tensor, name=...)",
            )
        if (
            isinstance(receiver, ast.Attribute)
            and receiver.attr == "inputs"
            and _is_node(receiver.value)
            and method in _LIST_CHANGES
        ):
            self.report(
                node,
                "node-inputs",
                f"node.inputs.{method}(...) changes inputs; use node.replace_input_with(index, value)",
            )
        if _is_builder(receiver) and method[:1].isupper():
            for arg, value in keywords.items():
                if arg in _NODE_KEYWORDS:
                    self.report(
                        value,
                        "node-keyword",
                        f"{arg}= is taken for an attribute of {method}; set value.producer().{arg} afterwards, or use builder.op(...)",
                    )
                elif not arg.startswith("_") and _is_none(value):
                    self.report(
                        value,
                        "none-attribute",
                        f"{arg}=None has no attribute type; leave it out, or give ir.Attr({arg!r}, ir.AttributeType....)",
                    )
            self._version(node, keywords)

    def _version(self, node: ast.Call, keywords: dict[str, ast.AST]) -> None:
        if "_version" not in keywords:
            return
        version = self.scope.resolve(keywords["_version"])
        domain = self.scope.resolve(keywords.get("_domain", ast.Constant("")))
        if (
            not isinstance(version, ast.Constant)
            or not isinstance(version.value, int)
            or not isinstance(domain, ast.Constant)
        ):
            return
        first = self.versions.setdefault(str(domain.value), version.value)
        if first != version.value:
            self.report(
                keywords["_version"],
                "mixed-versions",
                f"opset {version.value} of domain {domain.value!r}, after {first} above; use one",
            )

    # -- keys

    def _check_keys(self, body: list[ast.stmt]) -> None:
        """Keys that are passed to two samplers without a split in between. Visits blocks in source order."""
        used: dict[str, int] = {}
        for statement in _statements(body):
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            for call in self._own_calls(statement):
                name = _dotted(call.func)
                module, _, sampler = name.rpartition(".")
                if not module.endswith("random") and module not in ("jr", "jrandom"):
                    continue
                if module.startswith(("np.", "numpy.")) or module == "np" or sampler in _SAMPLERS_THAT_SHARE:
                    continue
                key = next((k.value for k in call.keywords if k.arg == "key"), call.args[0] if call.args else None)
                if not isinstance(key, ast.Name):
                    continue
                if key.id in used:
                    self.report(
                        call,
                        "reused-key",
                        f"the key '{key.id}' was used in line {used[key.id]}; split it: jax.random.split({key.id})",
                    )
                used.setdefault(key.id, call.lineno)
            for target in ast.walk(statement):
                if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
                    used.pop(target.id, None)

    @staticmethod
    def _own_calls(statement: ast.stmt) -> Iterator[ast.Call]:
        """Calls in the statement itself, not in the blocks below it."""
        todo: list[ast.AST] = [
            value
            for field, value in ast.iter_fields(statement)
            if field not in ("body", "orelse", "finalbody", "handlers")
            for value in (value if isinstance(value, list) else [value])
            if isinstance(value, ast.AST)
        ]
        while todo:
            node = todo.pop(0)
            if isinstance(node, ast.Call):
                yield node
            if not isinstance(node, ast.Lambda):
                todo.extend(ast.iter_child_nodes(node))


def check_source(source: str, path: str = "<source>") -> list[Finding]:
    """The findings in one file's text, in order."""
    try:
        tree = ast.parse(source, path)
    except (SyntaxError, ValueError) as e:
        return [
            Finding(
                path,
                getattr(e, "lineno", None) or 1,
                getattr(e, "offset", None) or 1,
                "syntax",
                f"is no Python: {getattr(e, 'msg', e)}",
            )
        ]
    checker = _Checker(path, tree)
    for statement in tree.body:
        checker.visit(statement)
    lines = source.splitlines()
    kept = []
    for finding in sorted(set(checker.findings)):
        allowed = _ALLOW.search(lines[finding.line - 1]) if finding.line <= len(lines) else None
        if allowed is None or finding.rule not in re.split(r"\s*,\s*", allowed.group(1)):
            kept.append(finding)
    return kept


def check_file(path: str | os.PathLike) -> list[Finding]:
    """The findings in one file."""
    return check_source(Path(path).read_text(encoding="utf-8"), os.fspath(path))


def _staged(limits: list[str]) -> list[str]:
    command = [
        "git",
        "diff",
        "--cached",
        "--name-only",
        "--diff-filter=ACMR",
        "-z",
        "--relative",
        "--",
        *(limits or ["."]),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise SystemExit("error: --diff needs git, which was not found") from None
    if done.returncode != 0:
        raise SystemExit(f"error: --diff could not ask git for staged files: {done.stderr.strip()}")
    return [f for f in done.stdout.split("\0") if f.endswith(".py") and os.path.exists(f)]


def _expand(paths: list[str]) -> list[str]:
    files: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            files.extend(str(f) for f in sorted(Path(path).rglob("*.py")))
        else:
            files.append(path)
    return files


def main(arguments: list[str] | None = None) -> int:
    """Prints the findings. 0: none, 1: some, 2: a file could not be read."""
    parser = argparse.ArgumentParser(
        prog="python -m sardonyx.lint",
        description="Check the source of converter plugins against the builder's rules.",
        epilog="rules:\n" + "\n".join(f"  {name:18} {text}" for name, text in RULES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="Python files, or folders of them")
    parser.add_argument(
        "--diff", action="store_true", help="only files that are staged in git (below FILE..., if given)"
    )
    parser.add_argument("--json", action="store_true", help="machine-readable output: an array of objects")
    options = parser.parse_args(arguments)
    if not options.files and not options.diff:
        parser.error("no files given (use --diff for those that are staged)")
    files = _staged(options.files) if options.diff else _expand(options.files)
    findings: list[Finding] = []
    objects: list[dict] = []
    status = 0
    for file in files:
        head = {"schema": 1, "command": "lint-plugin", "input": str(file)}
        try:
            found = check_file(file)
        except (OSError, UnicodeDecodeError) as e:
            text = f"cannot be read: {getattr(e, 'strerror', None) or e}"
            objects.append(head | {"ok": False, "error": {"code": "io", "message": text, "notes": []}})
            print(f"{file}: error: {text}", file=sys.stderr)
            status = 2
            continue
        findings.extend(found)
        keys = ("line", "column", "rule", "message")
        objects.append(head | {"ok": not found, "findings": [{k: getattr(f, k) for k in keys} for f in found]})
    if options.json:
        print(json.dumps(objects, indent=2))
        return status or (1 if findings else 0)
    for finding in findings:
        print(finding)
    if findings:
        count = len(findings)
        print(
            f"{count} finding{'s' if count != 1 else ''} in {len({f.path for f in findings})} of {len(files)} files",
            file=sys.stderr,
        )
    return status or (1 if findings else 0)


if __name__ == "__main__":
    sys.exit(main())
