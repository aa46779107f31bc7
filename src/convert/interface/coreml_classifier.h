// Classifiers: a result with one number per class becomes the label of the class with the largest, and a
// dictionary of all of them.
#pragma once

#include <cstddef>

#include "sardonyx/coreml.h"

namespace sardonyx {

// The number of the result that is classified. Throws kInvalidArgument if there is none, or not one, of that
// many elements.
size_t classified_result(const Model& mil, const CoremlClassifier& classifier);

// Puts the label and the dictionary in the place of the result, before the others. Results have their final
// names. Throws kInvalidArgument if another input or result has the label's name.
void add_classifier(Model& mil, size_t result, const CoremlClassifier& classifier);

}  // namespace sardonyx
