// The texts that describe a conversion to Core ML on the command line, as values.
#pragma once

#include "cli/options/options.h"
#include "cli/print/output.h"
#include "sardonyx/coreml.h"

namespace sardonyx::cli {

// These throw kInvalidArgument. The precision is half without --precision.
CoremlPrecision coreml_precision(const Given& given);
ToCoremlOptions coreml_options(const Given& given);
// The same as keywords of sardonyx.to_coreml.
ordered_json coreml_keywords(const Given& given);

}  // namespace sardonyx::cli
