// Pairs of NumPy files: samples and their desired outputs.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "compute/graph.hpp"
#include "data/array_set.hpp"
#include "data/npy.hpp"
#include "data/sources.hpp"

namespace starling::data {
namespace {

using base::ErrorCode;
using base::fail;

constexpr const char* kHowToGet =
    "set data.path to a folder with x_train.npy and y_train.npy, and x_test.npy and y_test.npy if "
    "the test set is not to be taken from these";

/// Part of the identity: how the test set was taken from the training samples.
constexpr std::uint64_t kTakenSpread = 1;

/// Samples and answers of one length.
struct NpyPair {
  Npy x;
  Npy y;
  std::string name;

  [[nodiscard]] std::uint32_t count() const noexcept {
    return static_cast<std::uint32_t>(x.header.shape[0]);
  }
};

/// The shape of one element, if there is a first axis of samples and at most `most` further ones.
base::Result<std::vector<std::uint32_t>> sample_shape(const Npy& array, std::size_t most,
                                                      const std::string& path) {
  const auto& shape = array.header.shape;
  const bool fits =
      !shape.empty() && shape.size() <= most + 1 &&
      std::ranges::all_of(shape, [](std::uint64_t side) {
        return side > 0 && side <= std::max<std::uint64_t>(kSamplesMax, kSampleValuesMax);
      });
  if (!fits) {
    return fail(ErrorCode::data,
                "{}: has the shape ({}); the first axis must be the samples (at most {}), and {} "
                "more are allowed",
                path, fmt::join(shape, ", "), kSamplesMax, most);
  }
  return std::vector<std::uint32_t>(shape.begin() + 1, shape.end());
}

base::Result<Npy> open_part(const std::string& path, const Cache& cache) {
  auto array = open_npy(path, cache);
  if (array) return array;
  std::error_code ignored;
  base::Error error = array.error();
  if (!std::filesystem::exists(path, ignored)) error.text += fmt::format(" ({})", kHowToGet);
  return fail(std::move(error));
}

base::Result<NpyPair> open_pair(const std::string& folder, const char* part, const Cache& cache) {
  const std::string x_path = fmt::format("{}/x_{}.npy", folder, part);
  const std::string y_path = fmt::format("{}/y_{}.npy", folder, part);
  auto x = open_part(x_path, cache);
  if (!x) return fail(x.error());
  auto y = open_part(y_path, cache);
  if (!y) return fail(y.error());
  if (x->header.type != NpyType::float32 && x->header.type != NpyType::uint8) {
    return fail(ErrorCode::data, "{}: holds {}; samples must be float32, or uint8 to be normalised",
                x_path, name_of(x->header.type));
  }
  const bool targets = y->header.type == NpyType::float32;
  if (auto shape = sample_shape(*x, 3, x_path); !shape) return fail(shape.error());
  if (auto shape = sample_shape(*y, targets ? 3 : 0, y_path); !shape) return fail(shape.error());
  if (x->header.shape.size() == 1) {
    return fail(ErrorCode::data, "{}: a sample is a single number: give it the shape ({}, 1)",
                x_path, x->header.shape[0]);
  }
  if (x->header.shape[0] != y->header.shape[0]) {
    return fail(ErrorCode::data, "{}: {} samples, but {} answers in y_{}.npy", x_path,
                x->header.shape[0], y->header.shape[0], part);
  }
  return NpyPair{std::move(*x), std::move(*y), fmt::format("{}/*_{}.npy", folder, part)};
}

template <class Value>
base::Result<std::vector<std::int32_t>> labels_of(const NpyPair& pair) {
  const base::ByteView bytes = pair.y.values();
  std::vector<std::int32_t> labels(pair.count());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    Value label;
    std::memcpy(&label, bytes.data() + i * sizeof label, sizeof label);
    if (std::cmp_less(label, 0) || std::cmp_greater_equal(label, compute::kClassesMax)) {
      return fail(ErrorCode::data, "{}: label {} of sample {} is not a number from 0 to {}",
                  pair.name, label, i, compute::kClassesMax - 1);
    }
    labels[i] = static_cast<std::int32_t>(label);
  }
  return labels;
}

base::Result<std::vector<std::int32_t>> labels_of(const NpyPair& pair) {
  switch (pair.y.header.type) {
    case NpyType::uint8:
      return labels_of<std::uint8_t>(pair);
    case NpyType::int32:
      return labels_of<std::int32_t>(pair);
    default:
      return labels_of<std::int64_t>(pair);
  }
}

Rows rows_of(const Npy& array) {
  const auto count = static_cast<std::uint32_t>(array.header.shape[0]);
  const base::ByteView bytes = array.values();
  return {bytes.data(), bytes.size() / count, count};
}

Inputs inputs_of_pair(const NpyPair& pair) {
  const auto& shape = pair.x.header.shape;
  Inputs inputs{
      .blocks = {rows_of(pair.x)}, .shape = {}, .floats = pair.x.header.type == NpyType::float32};
  for (std::size_t i = 1; i < shape.size(); ++i) {
    inputs.shape.push_back(static_cast<std::uint32_t>(shape[i]));
  }
  return inputs;
}

/// Labels, classes left open, or targets.
base::Result<Answers> answers_of(const NpyPair& pair) {
  Answers answers;
  if (pair.y.header.type != NpyType::float32) {
    auto labels = labels_of(pair);
    if (!labels) return fail(labels.error());
    answers.labels = std::move(*labels);
    return answers;
  }
  const auto& shape = pair.y.header.shape;
  answers.targets = rows_of(pair.y);
  for (std::size_t i = 1; i < shape.size(); ++i) {
    answers.target_shape.push_back(static_cast<std::uint32_t>(shape[i]));
  }
  if (answers.target_shape.empty()) answers.target_shape = {1};
  return answers;
}

/// The parts of a set.
struct Made {
  Inputs inputs;
  Answers answers;
  std::string name;
};

base::Result<Made> made_of(const NpyPair& pair) {
  auto answers = answers_of(pair);
  if (!answers) return fail(answers.error());
  return Made{inputs_of_pair(pair), std::move(*answers), pair.name};
}

/// Opens a pair, whose bytes go to `storage` and hashes to `hashes`.
base::Result<Made> read_pair(const LoadOptions& options, const std::string& folder,
                             const char* part, std::vector<Storage>& storage,
                             std::vector<base::Hash128>& hashes) {
  auto pair = open_pair(folder, part, options.cache);
  if (!pair) return fail(pair.error());
  auto made = made_of(*pair);
  hashes.insert(hashes.end(), {pair->x.hash, pair->y.hash});
  storage.push_back(std::move(pair->x.storage));
  storage.push_back(std::move(pair->y.storage));
  return made;
}

/// `wanted` samples that represent all, or else the others.
Made part_of(const Made& all, std::uint32_t wanted, bool taken) {
  const auto part_of_rows = [&](const Rows& rows) {
    return taken ? rows.taken_of(wanted) : rows.left_of(wanted);
  };
  Made part{.inputs = all.inputs, .answers = {}, .name = all.name};
  const Rows samples = part_of_rows(all.inputs.blocks[0]);
  part.inputs.blocks = {samples};
  if (all.answers.labels.empty()) {
    part.answers.targets = part_of_rows(all.answers.targets);
    part.answers.target_shape = all.answers.target_shape;
    return part;
  }
  part.answers.labels.resize(samples.count);
  for (std::uint32_t i = 0; i < samples.count; ++i) {
    part.answers.labels[i] = all.answers.labels[samples.number(i)];
  }
  return part;
}

/// Removes `wanted` samples, spread over all, and returns them. It does not take them from the end:
/// arrays are often sorted by label, and training would then miss the labels there.
Made take_spread(Made& all, std::uint32_t wanted) {
  Made test = part_of(all, wanted, true);
  test.name += ", taken for the test set";
  all = part_of(all, wanted, false);
  return test;
}

/// Gives both sets the facts that need both: the number of classes, and how the training samples
/// are normalised.
base::Status agree(const Config& config, Made& train, Made& test, const std::string& folder) {
  if (train.inputs.shape != test.inputs.shape || train.inputs.floats != test.inputs.floats ||
      train.answers.target_shape != test.answers.target_shape) {
    return fail(ErrorCode::data, "{}: training and test samples differ in shape or type", folder);
  }
  if (!train.inputs.floats) {
    train.inputs.normalisation = normalisation_of(config, train.inputs);
    test.inputs.normalisation = train.inputs.normalisation;
  }
  if (train.answers.labels.empty()) return {};
  std::int32_t largest = 0;
  for (const Made* made : {&train, &test}) {
    for (const std::int32_t label : made->answers.labels) largest = std::max(largest, label);
  }
  const auto classes = classes_of(config, largest);
  if (!classes) return fail(classes.error());
  train.answers.classes = *classes;
  test.answers.classes = train.answers.classes;
  return {};
}

}  // namespace

base::Result<Dataset> load_npy(const LoadOptions& options) {
  const auto folder = only_path(options.config, "", kHowToGet);
  if (!folder) return fail(folder.error());
  Dataset dataset;
  std::vector<base::Hash128> hashes;
  auto train = read_pair(options, *folder, "train", dataset.storage, hashes);
  if (!train) return fail(train.error());
  // If only one of the two is there, this is an error, which opening them reports, and no reason to
  // train on less than was given.
  std::error_code ignored;
  const bool apart = std::filesystem::exists(*folder + "/x_test.npy", ignored) ||
                     std::filesystem::exists(*folder + "/y_test.npy", ignored);
  auto test =
      apart ? read_pair(options, *folder, "test", dataset.storage, hashes)
            : take_spread(*train,
                          static_cast<std::uint32_t>(options.config.test_fraction *
                                                     static_cast<double>(train->inputs.count())));
  if (!test) return fail(test.error());
  const auto agreed = agree(options.config, *train, *test, *folder);
  if (!agreed) return fail(agreed.error());
  std::vector sizes{train->inputs.count(), test->inputs.count()};
  if (!apart) sizes.push_back(kTakenSpread);
  dataset.identity = combine(hashes, sizes);
  dataset.floats = train->inputs.floats;
  auto train_set = ArraySet::make(std::move(train->inputs), std::move(train->answers), train->name);
  if (!train_set) return fail(train_set.error());
  auto test_set = ArraySet::make(std::move(test->inputs), std::move(test->answers), test->name);
  if (!test_set) return fail(test_set.error());
  dataset.train = std::move(*train_set);
  dataset.test = std::move(*test_set);
  return dataset;
}

}  // namespace starling::data
