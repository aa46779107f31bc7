// Type rules of ONNX operators, by family in infer_*.cc. scripts/tables/gen_onnx_facts.py assigns rules to
// operators.
#pragma once

#include "sardonyx/infer.h"

namespace sardonyx::onnx::rules {

#include "dialects/onnx/generated/rules.gen.inc"

}  // namespace sardonyx::onnx::rules
