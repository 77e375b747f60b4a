// libFuzzer: any bytes as a file of samples, of text or of a checkpoint. Accepted files must be
// sound.
// The first byte chooses the reader.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "base/hash.hpp"
#include "data/gzip.hpp"
#include "data/idx.hpp"
#include "data/npy.hpp"
#include "data/vocabulary.hpp"
#include "data/words.hpp"
#include "train/checkpoint_state.hpp"
#include "train/safetensors.hpp"

using namespace starling;

namespace {

constexpr std::size_t kUnpackedMax = 1 << 16;

void fuzz_idx(base::ByteView bytes) {
  const auto idx = data::parse_idx(data::Storage(base::Bytes(bytes.begin(), bytes.end())), 0, "");
  if (!idx) return;
  std::size_t values = 1;
  for (const std::uint32_t side : idx->shape()) values *= side;
  ASSERT(idx->values().size() == values);
}

void fuzz_npy(base::ByteView bytes) {
  const auto header = data::npy_header(bytes, "");
  if (header) ASSERT(header->values_at <= bytes.size());
}

/// Pairs of bytes as merges, then a text to encode and decode.
void fuzz_vocabulary(base::ByteView bytes) {
  std::vector<data::Merge> merges;
  const std::size_t count = bytes.size() / 8;
  for (std::size_t i = 0; i < count; ++i) {
    const auto token = [&](std::size_t at) {
      return std::to_integer<std::int32_t>(bytes[at]) + (at % 4 == 0 ? 0 : 256);
    };
    merges.push_back({token(2 * i), token(2 * i + 1)});
  }
  const auto vocabulary = data::Vocabulary::make(std::move(merges), "");
  if (!vocabulary) return;
  const std::string text(base::text_of(bytes));
  ASSERT(vocabulary->decode(vocabulary->encode(text)) == text);
}

void fuzz_safetensors(base::ByteView bytes) {
  const auto entries = train::parse_safetensors(bytes, "");
  if (!entries) return;
  for (const train::TensorEntry& entry : *entries) {
    ASSERT(entry.offset <= bytes.size() && entry.size <= bytes.size() - entry.offset);
  }
}

/// Any text; then a state made from the bytes: it is written and read again. Without a correct
/// hash, the parts after it would not be checked.
void fuzz_state(base::ByteView bytes) {
  (void)train::parse_state(base::text_of(bytes), "");
  const auto take = [&bytes](auto value) {
    const std::size_t size = std::min(bytes.size(), sizeof value);
    std::copy_n(bytes.begin(), size, std::as_writable_bytes(std::span(&value, 1)).begin());
    bytes = bytes.subspan(size);
    return value;
  };
  train::StateFile made;
  made.state.run = take(base::Hash128{});
  made.state.step = {take(std::uint64_t{0})};
  made.state.optimizer_steps = take(std::uint64_t{0});
  made.state.samples = take(std::uint64_t{0});
  const double progress = take(0.0);
  made.state.progress = std::isfinite(progress) ? progress : 0;
  made.model_hash = take(std::uint64_t{0});
  made.optimizer_hash = take(std::uint64_t{0});
  std::map<std::uint64_t, std::uint64_t> counters;  // no peer twice, and in order
  while (!bytes.empty()) {
    const auto peer = take(std::uint64_t{0});
    counters[peer] = take(std::uint64_t{0});
  }
  for (const auto& [peer, samples] : counters) made.state.counters.push_back({peer, samples});
  const auto read = train::parse_state(train::state_text(made), "");
  ASSERT(read.has_value() && read->state == made.state && read->model_hash == made.model_hash &&
         read->optimizer_hash == made.optimizer_hash);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return 0;
  const base::ByteView file(reinterpret_cast<const std::byte*>(bytes) + 1, size - 1);
  switch (bytes[0] % 6) {
    case 0:
      fuzz_idx(file);
      break;
    case 1:
      fuzz_npy(file);
      break;
    case 2:
      (void)data::unpack_idx(file, "");
      break;
    case 3:
      fuzz_safetensors(file);
      break;
    case 4:
      fuzz_state(file);
      break;
    default:
      fuzz_vocabulary(file);
  }
  return 0;
}
