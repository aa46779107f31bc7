// Shared with the precision int8 of an optimization and of a conversion.
#pragma once

namespace sardonyx::mil {

// Throws kUnsupported if programs of specification `version` of Core ML (8 is iOS 17) have no arithmetic in
// integers of 8 bits.
void check_activations(int version);

}  // namespace sardonyx::mil
