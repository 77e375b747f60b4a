// The kinds of sources that load() knows; for dataset.cpp alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "data/array_set.hpp"
#include "data/config.hpp"
#include "data/dataset.hpp"

namespace starling::data {

/// The arguments of every source; see load().
struct LoadOptions {
  const Config& config;
  std::uint32_t context;
  const Cache& cache;
};

/// fashion-mnist, mnist, idx: a folder of four IDX files.
[[nodiscard]] base::Result<Dataset> load_idx(const LoadOptions& options);
/// cifar10, cifar100: a folder of their binary files.
[[nodiscard]] base::Result<Dataset> load_cifar(const LoadOptions& options);
/// npy: a folder of pairs of NumPy files.
[[nodiscard]] base::Result<Dataset> load_npy(const LoadOptions& options);
/// text, bible-kjv; tokens.
[[nodiscard]] base::Result<Dataset> load_text(const LoadOptions& options);

/// The only path of data.path, without a slash at its end, or else `fallback`. Error: there is
/// neither (the text includes `how_to_get`), or there are several.
[[nodiscard]] base::Result<std::string> only_path(const Config& config, const std::string& fallback,
                                                  const std::string& how_to_get);

/// How bytes are normalised: as `known` for the source, or else as measured on the training
/// samples, `inputs`; private data of any source by constants that all peers agree on.
[[nodiscard]] std::vector<Normalisation> normalisation_of(
    const Config& config, const Inputs& inputs, std::span<const Normalisation> known = {});

/// data.classes, or the number that follows from the largest label. Error (run_file): a label is
/// beyond it.
[[nodiscard]] base::Result<std::uint32_t> classes_of(const Config& config, std::int32_t largest);

/// The hash of hashes and numbers, in that order.
[[nodiscard]] base::Hash128 combine(std::span<const base::Hash128> hashes,
                                    std::span<const std::uint64_t> numbers = {});

}  // namespace starling::data
