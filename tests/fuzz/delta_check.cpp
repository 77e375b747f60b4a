// libFuzzer: any bytes as a delta or a keyframe of a peer. Accepted ones must be sound. The first
// byte chooses the size of the replica, the rest is the payload; and it is also a difference, four
// bytes per value, which must arrive at the other end unchanged.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/assert.hpp"
#include "delta/codec.hpp"
#include "delta/dense.hpp"

using namespace starling;

namespace {

constexpr std::size_t kSizes[] = {1, 8, 300, 5000};

void fuzz_sparse(base::ByteView payload, std::size_t n) {
  delta::Elements elements;
  if (!delta::decode(payload, n, elements)) return;
  ASSERT(elements.indices.size() == elements.values.size());
  for (std::size_t j = 0; j < elements.size(); ++j) {
    ASSERT(elements.indices[j] < n && (j == 0 || elements.indices[j] > elements.indices[j - 1]));
    ASSERT(elements.values[j] != 0.0F);
    ASSERT(std::fabs(elements.values[j]) <= delta::format::kMagnitudeMax);
  }
}

void fuzz_dense(base::ByteView payload, std::size_t n) {
  const std::vector<float> origin(n, 1.0F);
  std::vector<float> out(n);
  if (!delta::decode_dense(payload, origin, out)) return;
  ASSERT(std::ranges::all_of(
      out, [](float value) { return std::fabs(value) <= delta::format::kMagnitudeMax; }));
}

void fuzz_encode(base::ByteView bytes, std::uint8_t choice) {
  constexpr int kBits[] = {1, 2, 3, 4, 8};
  const std::size_t n = bytes.size() / sizeof(float);
  if (n == 0) return;
  std::vector<float> x(n);
  std::memcpy(x.data(), bytes.data(), n * sizeof(float));
  const std::vector<float> zero(n, 0.0F);
  const delta::Options options{.density = choice % 2 == 0 ? 1.0 : 0.3,
                               .bits = kBits[choice % std::size(kBits)],
                               .block = 1U + choice % 32U};
  delta::HostDelta own;
  base::Bytes payload;
  if (!delta::encode({.base = x, .offset = {}, .mirror = zero}, options, payload, own)) return;
  delta::Elements elements;
  ASSERT(delta::decode(payload, n, elements).has_value());
  ASSERT(elements.indices == own.elements().indices && elements.values == own.elements().values);
  for (std::size_t j = 0; j < elements.size(); ++j) {
    ASSERT(std::signbit(elements.values[j]) == std::signbit(x[elements.indices[j]]));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t n = kSizes[data[0] % std::size(kSizes)];
  const base::ByteView payload(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  fuzz_sparse(payload, n);
  fuzz_dense(payload, n);
  fuzz_encode(payload, data[0]);
  return 0;
}
