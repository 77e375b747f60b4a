#include "data/dataset.hpp"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "base/suggest.hpp"
#include "data/sources.hpp"
#include "data/vocabulary.hpp"

namespace starling::data {
namespace {

using base::ErrorCode;
using base::fail;

struct Source {
  std::string_view name;
  base::Result<Dataset> (*load)(const LoadOptions&);
};

constexpr std::array kSources{
    Source{"bible-kjv", load_text}, Source{"cifar10", load_cifar},
    Source{"cifar100", load_cifar}, Source{"fashion-mnist", load_idx},
    Source{"idx", load_idx},        Source{"mnist", load_idx},
    Source{"npy", load_npy},        Source{"text", load_text},
    Source{"tokens", load_text},
};

constexpr auto kSourceNames = [] {
  std::array<std::string_view, kSources.size()> names;
  std::ranges::transform(kSources, names.begin(), &Source::name);
  return names;
}();

/// Checks the requirements of the keys on the samples of the source.
base::Status check_keys(const Config& config, const SampleSet& train) {
  const SampleFormat& format = train.format();
  if (goes_by_labels(config.split) && train.labels().empty()) {
    return fail(ErrorCode::run_file,
                "data.split = \"{}\" goes by labels, but samples of {} have no label of their "
                "own: use data.split = \"iid\"",
                config.split == Split::stratified ? "stratified" : "dirichlet", config.source);
  }
  if (config.classes != 0 && format.classes == 0) {
    return fail(ErrorCode::run_file,
                "data.classes counts labels, but samples of {} have targets: leave it out",
                config.source);
  }
  if (config.classes != 0 && config.classes != format.classes) {
    return fail(ErrorCode::run_file, "data.classes is for data.source idx and npy: {} has {}",
                config.source, format.classes);
  }
  if (!config.test_path.empty() && format.vocabulary == 0) {
    return fail(ErrorCode::run_file,
                "data.test_path names files of text, but samples of {} are none: leave it out",
                config.source);
  }
  if (!config.augmentation.any()) return {};
  if (format.vocabulary != 0 || format.shape.size() != 3) {
    return fail(ErrorCode::run_file,
                "data.crop and data.flip change images, but samples of {} are none: leave them out",
                config.source);
  }
  const std::uint32_t side = std::min(format.shape[1], format.shape[2]);
  if (config.augmentation.crop >= side) {
    return fail(ErrorCode::run_file, "data.crop = {} moves images of {} out of sight: at most {}",
                config.augmentation.crop, config.source, side - 1);
  }
  return {};
}

/// Equal if samples have the same form and their tokens the same meaning.
base::Hash128 identity_of_format(const Dataset& dataset) {
  const SampleFormat& format = dataset.format();
  std::string text =
      fmt::format("{} {} {} {} {}", fmt::join(format.shape, "x"), dataset.floats, format.classes,
                  fmt::join(format.target_shape, "x"), format.vocabulary);
  if (dataset.vocabulary) text += " " + dataset.vocabulary->hex();
  return base::xxh3_128(text);
}

}  // namespace

std::optional<SampleFormat> known_format(const Config& config, std::uint32_t context) {
  const std::string& source = config.source;
  if (source == "fashion-mnist" || source == "mnist") {
    return SampleFormat{.shape = {1, 28, 28}, .classes = 10};
  }
  if (source == "cifar10" || source == "cifar100") {
    return SampleFormat{.shape = {3, 32, 32}, .classes = source == "cifar10" ? 10U : 100U};
  }
  if (context == 0 || (source != "bible-kjv" && source != "text" && source != "tokens")) {
    return std::nullopt;
  }
  const auto vocabulary = load_vocabulary(config);
  if (!vocabulary) return std::nullopt;
  return SampleFormat{
      .shape = {context}, .vocabulary = vocabulary->size(), .classes = vocabulary->size()};
}

std::uint64_t Dataset::memory_bytes() const noexcept {
  std::uint64_t bytes = (train->labels().size() + test->labels().size()) * sizeof(std::int32_t);
  for (const Storage& part : storage) bytes += part.memory_bytes();
  return bytes;
}

base::Result<Dataset> load(const Config& config, std::uint32_t context, const Cache& cache) {
  const auto source = std::ranges::find(kSources, config.source, &Source::name);
  if (source == kSources.end()) {
    return fail(ErrorCode::run_file, "data.source: '{}' is not known{}", config.source,
                base::suggestion(config.source, kSourceNames));
  }
  auto loaded = source->load({config, context, cache});
  if (!loaded) return loaded;
  if (auto fits = check_keys(config, *loaded->train); !fits) return fail(fits.error());
  if (config.split == Split::private_data) loaded->identity = identity_of_format(*loaded);
  // By now, files have been read through from beginning to end. Samples are taken in any order:
  // reading ahead around them would only push others out of memory.
  for (Storage& part : loaded->storage) part.expect_random_reads();
  return loaded;
}

std::vector<Normalisation> normalisation_of(const Config& config, const Inputs& inputs,
                                            std::span<const Normalisation> known) {
  if (config.split == Split::private_data) return {kAgreedNormalisation};
  if (!known.empty()) return {known.begin(), known.end()};
  return measure(inputs);
}

base::Result<std::uint32_t> classes_of(const Config& config, std::int32_t largest) {
  const std::uint32_t needed = static_cast<std::uint32_t>(largest) + 1;
  if (config.classes == 0) return needed;
  if (config.classes >= needed) return config.classes;
  return fail(ErrorCode::run_file, "data.classes = {} is too small: there is a label {}",
              config.classes, largest);
}

base::Result<std::string> only_path(const Config& config, const std::string& fallback,
                                    const std::string& how_to_get) {
  if (config.path.size() > 1) {
    return fail(ErrorCode::run_file, "data.path: '{}' takes one folder, not {}", config.source,
                config.path.size());
  }
  std::string path = config.path.empty() ? fallback : config.path.front();
  if (path.empty()) {
    return fail(ErrorCode::data, "data set '{}' has no default place: {}", config.source,
                how_to_get);
  }
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

base::Hash128 combine(std::span<const base::Hash128> hashes,
                      std::span<const std::uint64_t> numbers) {
  base::Bytes all(hashes.size_bytes() + numbers.size_bytes());
  const auto rest = std::ranges::copy(base::bytes_of(hashes), all.begin()).out;
  std::ranges::copy(base::bytes_of(numbers), rest);
  return base::xxh3_128(all);
}

}  // namespace starling::data
