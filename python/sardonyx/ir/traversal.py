"""Walks over graphs with all nested graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sardonyx.ir._core import Function, Graph, GraphView, Node, _graphs_of

__all__ = ["RecursiveGraphIterator"]


class RecursiveGraphIterator:
    """All nodes of a graph, each followed by those of its nested graphs.

    `recursive(node)` says whether to enter a node's graphs; `enter_graph` and `exit_graph` are called around
    each graph.
    """

    def __init__(
        self,
        graph_like: Graph | Function | GraphView,
        *,
        recursive: Callable[[Node], bool] | None = None,
        reverse: bool = False,
        enter_graph: Callable[[Graph], None] | None = None,
        exit_graph: Callable[[Graph], None] | None = None,
    ):
        self._graph = graph_like
        self._recursive = recursive
        self._reverse = reverse
        self._enter = enter_graph
        self._exit = exit_graph

    def __iter__(self) -> Iterator[Node]:
        # (graph, its nodes, node whose graphs come first in reverse order)
        if self._enter is not None:
            self._enter(self._graph)
        stack = [(self._graph, self._nodes(self._graph))]
        while stack:
            graph, nodes = stack[-1]
            item = next(nodes, None)
            if item is None:
                stack.pop()
                if self._exit is not None:
                    self._exit(graph)
            elif isinstance(item, Node):
                yield item
            else:
                if self._enter is not None:
                    self._enter(item)
                stack.append((item, self._nodes(item)))

    def _nodes(self, graph) -> Iterator[Node | Graph]:
        for node in reversed(graph) if self._reverse else graph:
            nested = _graphs_of(node) if self._recursive is None or self._recursive(node) else []
            if self._reverse:
                yield from reversed(nested)
                yield node
            else:
                yield node
                yield from nested

    def __reversed__(self) -> RecursiveGraphIterator:
        return RecursiveGraphIterator(
            self._graph,
            recursive=self._recursive,
            reverse=not self._reverse,
            enter_graph=self._enter,
            exit_graph=self._exit,
        )
