// Type rules of ONNX operators, by family: infer_*.cc. Which operator has which is tabled in tools/gen_onnx_facts.py.
#pragma once

#include "sardonyx/infer.h"

namespace sardonyx::onnx::rules {

#include "dialects/onnx/rules.gen.inc"

}  // namespace sardonyx::onnx::rules
