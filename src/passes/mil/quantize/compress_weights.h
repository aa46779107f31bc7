// Weights in fewer bits: shared with quantize_activations, and with the options `weights` of an optimization
// and of a conversion, which run compress_weights last.
#pragma once

#include <span>
#include <string>

#include "rewrite/pass.h"

namespace sardonyx::mil {

// Throws kInvalidArgument for options that compress_weights refuses, and kUnsupported if specification
// `version` of Core ML (8 is iOS 17) lacks the form that they ask for.
void check_compression(int version, const PassOptions& options);

// Whether v is a constant weight, all of its users read it as one, and its elements are finite.
bool can_compress(const Value& v, ValueFacts& facts);
// Stores such weights as int8, with a scale for each channel of results.
void compress_to_int8(std::span<Value* const> weights, PassContext& context);

std::string system_of(int version);  // 8 is "iOS17"

}  // namespace sardonyx::mil
