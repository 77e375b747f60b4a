// The data of a run: what to train on, and what to evaluate on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/hash.hpp"
#include "base/result.hpp"
#include "data/cache.hpp"
#include "data/config.hpp"
#include "data/sample_set.hpp"
#include "data/storage.hpp"

namespace starling::data {

struct Dataset {
  std::vector<Storage> storage;  ///< what both sets look at
  std::unique_ptr<const SampleSet> train;
  std::unique_ptr<const SampleSet> test;
  /// Part of the run id: of all contents and of what is kept for the test; with private data, which
  /// differ, of what samples look like and what their tokens stand for.
  base::Hash128 identity;
  bool floats = false;  ///< samples are floats in the files, too, and not bytes or text
  std::optional<base::Hash128> vocabulary;  ///< text: Vocabulary::hash of what its tokens stand for
  /// Text: bytes that a label of the test set stands for, in the mean (1 for bytes as tokens): a
  /// loss in nats, over this and ln 2, is in bits a byte. 0 for anything else.
  double bytes_per_label = 0;

  /// Bytes held in memory; what is mapped from files is not counted.
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept;
  /// Of both sets.
  [[nodiscard]] const SampleFormat& format() const noexcept { return train->format(); }
};

/// Reads the data that a run file names. `context`: tokens of a sample, as the model takes them;
/// 0: it takes none. Large files are mapped and only looked at; what is made of files (unpacked
/// or encoded), and what is known of them (hashes), is kept in the folder of `cache` for the next
/// start.
/// Errors: ErrorCode::run_file where the keys do not fit together or the data; ErrorCode::data
/// where files are missing or damaged. They say how to get what is missing. Takes about 0.4 s for
/// Fashion-MNIST, 0.02 s cached.
[[nodiscard]] base::Result<Dataset> load(const Config& config, std::uint32_t context = 0,
                                         const Cache& cache = {});

/// What samples of a source look like, where that does not depend on its files; `context` as in
/// load().
[[nodiscard]] std::optional<SampleFormat> known_format(const Config& config, std::uint32_t context);

}  // namespace starling::data
