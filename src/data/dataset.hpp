// The data of a run: for training, and for evaluation.
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
  std::vector<Storage> storage;  ///< the bytes of both sets
  std::unique_ptr<const SampleSet> train;
  std::unique_ptr<const SampleSet> test;
  /// Part of the run id: covers all contents and the choice of the test set; for private data,
  /// which differ, the form of samples and the meaning of their tokens.
  base::Hash128 identity;
  bool floats = false;  ///< samples are floats in the files, too, and not bytes or text
  std::optional<base::Hash128> vocabulary;  ///< text: Vocabulary::hash of its tokens' vocabulary
  /// Text: mean bytes per label of the test set (1 for bytes as tokens): a loss in nats, divided by
  /// this and ln 2, is in bits a byte. 0 for anything else.
  double bytes_per_label = 0;

  /// Bytes held in memory; bytes mapped from files are not counted.
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept;
  /// Of both sets.
  [[nodiscard]] const SampleFormat& format() const noexcept { return train->format(); }
};

/// Reads the data that a run file names. `context`: tokens of a sample, as the model takes them; 0:
/// it takes none. Large files are mapped and not copied; unpacked or encoded content, and hashes of
/// files, are kept in the folder of `cache` for the next start.
/// Errors: ErrorCode::run_file if the keys do not fit each other or the data; ErrorCode::data if
/// files are missing or damaged. They say how to get missing files. Takes about 0.4 s for
/// Fashion-MNIST, 0.02 s cached.
[[nodiscard]] base::Result<Dataset> load(const Config& config, std::uint32_t context = 0,
                                         const Cache& cache = {});

/// The format of a source's samples, if it does not depend on the files; `context` as in load().
[[nodiscard]] std::optional<SampleFormat> known_format(const Config& config, std::uint32_t context);

}  // namespace starling::data
