// Evaluation with a callback that sees every result.
#pragma once

#include <functional>

#include "sardonyx/eval.h"

namespace sardonyx {

// Called with each result of each node, which it may replace; for nodes in a body, once per run of the body.
using EvalWatcher = std::function<void(const Value& which, EvalValue& what)>;

// As evaluate(), and calls the watcher.
std::vector<EvalValue> evaluate_watched(const Graph& graph, std::span<const EvalValue> inputs, const EvalOptions& options,
                                        const EvalWatcher& watcher);

}  // namespace sardonyx
