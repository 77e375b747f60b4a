#include "delta/source.hpp"

#include <algorithm>

#include "delta/scan.hpp"

namespace starling::delta {
namespace {

constexpr std::size_t kScan = 8192;  // elements after which those found are counted
constexpr std::size_t kAhead = 64;   // elements of a sample that are asked for at a time

}  // namespace

base::Status DifferenceSource::sample(std::span<const std::uint32_t> places,
                                      std::span<float> values) {
  for (std::size_t begin = 0; begin < places.size(); begin += kAhead) {
    const std::size_t end = std::min(begin + kAhead, places.size());
    for (std::size_t j = begin; j < end; ++j) difference_.prefetch(places[j]);
    for (std::size_t j = begin; j < end; ++j) values[j] = difference_.at(places[j]);
  }
  return {};
}

base::Status DifferenceSource::collect(std::uint32_t key_min, std::size_t room,
                                       FoundElements& found) {
  const std::size_t n = size();
  found.reserve(room + std::min(kScan, n) + 1);
  found.count = 0;
  for (std::size_t begin = 0; begin < n && found.count <= room; begin += kScan) {
    found.count = scan(difference_, begin, std::min(begin + kScan, n), key_min,
                       found.indices.data(), found.values.data(), found.count);
  }
  return {};
}

base::Status DifferenceSource::fill(std::size_t begin, std::span<float> out) {
  difference_.fill(begin, out);
  return {};
}

}  // namespace starling::delta
