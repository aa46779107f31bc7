// Classifiers: a result with one number per class becomes the label of the class with the largest, and a dictionary of all of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

// One label per class, in the order of the result's elements: texts or numbers.
struct CoremlClassifier {
  std::vector<std::string> texts;
  std::vector<int64_t> numbers;
  std::string label = "classLabel";  // the name of the result that is the label; the dictionary's is this and "_probs"
  std::string probabilities;         // the name of the result that is classified; empty: the one whose size fits

  size_t size() const { return texts.empty() ? numbers.size() : texts.size(); }
};

// The lines of a text file. Throws for files without lines and those that are not UTF-8.
std::vector<std::string> read_class_labels(const std::filesystem::path& path);

// The number of the result that is classified. Throws kInvalidArgument if there is none, or not one, of that many elements.
size_t classified_result(const Model& mil, const CoremlClassifier& classifier);

// Puts the label and the dictionary in the place of the result, before the others. Results have their final names. Throws
// kInvalidArgument if another input or result has the label's name.
void add_classifier(Model& mil, size_t result, const CoremlClassifier& classifier);

}  // namespace sardonyx
