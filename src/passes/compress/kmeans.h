// k-means in one dimension, exact.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace sardonyx::compress {

// Numbers that lie so close together that they belong to one cluster.
struct Bin {
  double count = 0, sum = 0, squares = 0;
};

// Splits `bins`, in increasing order of their means, into at most `most` clusters of neighbors, for which the
// sum of the squared distances of all numbers from the means of their clusters is least. Returns the first
// bin of each cluster. Exact up to the rounding of sums to doubles. No bin is empty.
//
// Time is about 10 n log(n / most) for n bins, for any `most`.
std::vector<size_t> kmeans(std::span<const Bin> bins, size_t most);

}  // namespace sardonyx::compress
