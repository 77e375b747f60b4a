// MNIST and similar sets: four IDX files.
#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "data/array_set.hpp"
#include "data/idx.hpp"
#include "data/sources.hpp"

namespace starling::data {
namespace {

using base::fail;

/// A data set with a name.
struct Known {
  std::string_view name;
  const char* folder;  ///< where a package puts it; empty: nowhere
  const char* how_to_get;
  std::uint32_t classes;                         ///< 0: determined by the labels
  std::span<const Normalisation> normalisation;  ///< of the training pixels; empty: measured
};

constexpr std::array kFashionMnist{Normalisation{0.2860, 0.3530}};
constexpr std::array kMnist{Normalisation{0.1307, 0.3081}};

constexpr std::array kKnown{
    Known{"fashion-mnist", "/usr/share/datasets/fashion-mnist",
          "install it with `apt-get install dataset-fashion-mnist`, or set data.path to a folder "
          "with its four IDX files",
          10, kFashionMnist},
    Known{"mnist", "",
          "set data.path to a folder with its four IDX files (train-images-idx3-ubyte.gz, "
          "train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz)",
          10, kMnist},
    Known{"idx",
          "",
          "set data.path to a folder with four IDX files named as MNIST's "
          "(train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, "
          "t10k-labels-idx1-ubyte, all with .gz or without; idx4 for images with channels)",
          0,
          {}},
};

struct Part {
  Idx images;
  Idx labels;
  std::string name;
};

base::Result<Idx> read_file(const Known& known, const std::string& path, const std::string& cache) {
  auto idx = read_idx(path, cache);
  if (idx) return idx;
  base::Error error = idx.error();
  error.text += fmt::format(" (data set '{}': {})", known.name, known.how_to_get);
  return fail(std::move(error));
}

/// The images of a part: "idx3" for grey images, or else "idx4" for images with channels.
std::string images_path(const std::string& folder, std::string_view part) {
  std::error_code ignored;
  std::string with_channels = fmt::format("{}/{}-images-idx4-ubyte", folder, part);
  if (std::filesystem::exists(with_channels, ignored) ||
      std::filesystem::exists(with_channels + ".gz", ignored)) {
    return with_channels;
  }
  return fmt::format("{}/{}-images-idx3-ubyte", folder, part);
}

base::Result<Part> read_part(const Known& known, const std::string& folder, std::string_view part,
                             const std::string& cache) {
  auto images = read_file(known, images_path(folder, part), cache);
  if (!images) return fail(images.error());
  auto labels = read_file(known, fmt::format("{}/{}-labels-idx1-ubyte", folder, part), cache);
  if (!labels) return fail(labels.error());
  std::string name = fmt::format("{}/{}-*", folder, part);
  if (images->shape().size() < 2 || labels->shape().size() != 1) {
    return fail(base::ErrorCode::data,
                "{}: images have {} dimensions (2 to 4 are needed), labels {} (1 is needed)", name,
                images->shape().size(), labels->shape().size());
  }
  return Part{std::move(*images), std::move(*labels), std::move(name)};
}

Inputs inputs_of(const Idx& images) {
  const auto& shape = images.shape();
  const auto pixels = images.values();
  return {.blocks = {{reinterpret_cast<const std::byte*>(pixels.data()), pixels.size() / shape[0],
                      shape[0]}},
          .shape = {shape.begin() + 1, shape.end()}};
}

base::Result<std::unique_ptr<const SampleSet>> make_set(
    Part& part, std::uint32_t classes, const std::vector<Normalisation>& normalisation,
    std::vector<Storage>& storage) {
  Inputs inputs = inputs_of(part.images);
  inputs.normalisation = normalisation;
  const auto labels = part.labels.values();
  auto set = ArraySet::make(
      std::move(inputs), {.labels = {labels.begin(), labels.end()}, .classes = classes}, part.name);
  storage.push_back(std::move(part.images).release());
  if (!set) return fail(set.error());
  return std::move(*set);
}

}  // namespace

base::Result<Dataset> load_idx(const LoadOptions& options) {
  const Known& known = *std::ranges::find(kKnown, options.config.source, &Known::name);
  const auto folder = only_path(options.config, known.folder, known.how_to_get);
  if (!folder) return fail(folder.error());
  auto train = read_part(known, *folder, "train", options.cache.folder);
  if (!train) return fail(train.error());
  auto test = read_part(known, *folder, "t10k", options.cache.folder);
  if (!test) return fail(test.error());
  const std::array train_hashes{train->images.hash(), train->labels.hash()};
  const std::array test_hashes{test->images.hash(), test->labels.hash()};
  const std::array hashes{combine(train_hashes), combine(test_hashes)};

  const Inputs train_inputs = inputs_of(train->images);
  if (train_inputs.shape != inputs_of(test->images).shape) {
    return fail(base::ErrorCode::data, "{}: training and test images differ in shape", *folder);
  }
  std::uint32_t classes = known.classes;
  if (classes == 0) {
    const auto agreed =
        classes_of(options.config, std::max(std::ranges::max(train->labels.values()),
                                            std::ranges::max(test->labels.values())));
    if (!agreed) return fail(agreed.error());
    classes = *agreed;
  }
  const std::vector<Normalisation> normalisation =
      normalisation_of(options.config, train_inputs, known.normalisation);
  Dataset dataset;
  dataset.identity = combine(hashes);
  auto train_set = make_set(*train, classes, normalisation, dataset.storage);
  if (!train_set) return fail(train_set.error());
  auto test_set = make_set(*test, classes, normalisation, dataset.storage);
  if (!test_set) return fail(test_set.error());
  dataset.train = std::move(*train_set);
  dataset.test = std::move(*test_set);
  return dataset;
}

}  // namespace starling::data
