#include "data/dataset.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/assert.hpp"

namespace starling::data {
namespace {

using base::ErrorCode;
using base::fail;

/// A data set that load() knows by name.
struct Source {
  std::string_view name;
  std::string_view folder;  ///< where a package puts it; empty: nowhere
  std::string_view how_to_get;
  std::uint32_t classes;
  Normalisation normalisation;  ///< mean and deviation of the training pixels
};

constexpr std::array kSources{
    Source{"fashion-mnist",
           "/usr/share/datasets/fashion-mnist",
           "install it with `apt-get install dataset-fashion-mnist`, or set data.path to a folder "
           "with its four IDX files",
           10,
           {0.2860, 0.3530}},
    Source{"mnist",
           "",
           "set data.path to a folder with its four IDX files (train-images-idx3-ubyte.gz, "
           "train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz)",
           10,
           {0.1307, 0.3081}},
};

constexpr std::array kSourceNames{kSources[0].name, kSources[1].name};
static_assert(kSourceNames.size() == kSources.size());

base::Result<Idx> read_part(const Source& source, const std::string& folder, std::string_view part,
                            const std::string& cache_folder) {
  const std::string path = fmt::format("{}/{}-ubyte", folder, part);
  auto idx = read_idx(path, cache_folder);
  if (idx) return idx;
  base::Error error = idx.error();
  error.text += fmt::format(" (data set '{}': {})", source.name, source.how_to_get);
  return fail(std::move(error));
}

base::Result<SampleSet> read_set(const Source& source, const std::string& folder,
                                 std::string_view prefix, const std::string& cache_folder) {
  auto images = read_part(source, folder, fmt::format("{}-images-idx3", prefix), cache_folder);
  if (!images) return fail(images.error());
  auto labels = read_part(source, folder, fmt::format("{}-labels-idx1", prefix), cache_folder);
  if (!labels) return fail(labels.error());
  return SampleSet::make(std::move(*images), std::move(*labels), source.classes,
                         source.normalisation, fmt::format("{}/{}-*", folder, prefix));
}

}  // namespace

base::Result<SampleSet> SampleSet::make(Idx images, Idx labels, std::uint32_t classes,
                                        Normalisation normalisation, const std::string& name) {
  ASSERT(classes >= 1 && classes <= 256, "a label is one byte");
  SampleSet set(std::move(images), std::move(labels));
  const auto shape = set.images_.shape();
  const auto label_shape = set.labels_.shape();
  if (shape.size() < 2 || label_shape.size() != 1) {
    return fail(ErrorCode::data,
                "{}: images have {} dimensions (2 to 4 are needed), labels {} (1 is needed)", name,
                shape.size(), label_shape.size());
  }
  if (shape[0] != label_shape[0]) {
    return fail(ErrorCode::data, "{}: {} images but {} labels: the files do not belong together",
                name, shape[0], label_shape[0]);
  }
  set.size_ = shape[0];
  set.sample_values_ = set.images_.values().size() / set.size_;
  if (set.size_ > kSamplesMax || set.sample_values_ > kSampleValuesMax) {
    return fail(ErrorCode::data, "{}: more than {} samples, or than {} values each", name,
                kSamplesMax, kSampleValuesMax);
  }
  if (shape.size() == 3) set.sample_shape_.push_back(1);
  set.sample_shape_.insert(set.sample_shape_.end(), shape.begin() + 1, shape.end());
  const auto all = set.labels();
  const auto wrong =
      std::ranges::find_if(all, [&](std::uint8_t label) { return label >= classes; });
  if (wrong != all.end()) {
    return fail(ErrorCode::data, "{}: label {} of sample {} is not below {}, the number of classes",
                name, *wrong, wrong - all.begin(), classes);
  }
  for (std::size_t pixel = 0; pixel < set.normalised_.size(); ++pixel) {
    set.normalised_[pixel] = static_cast<float>(
        (static_cast<double>(pixel) / 255.0 - normalisation.mean) / normalisation.std);
  }
  return set;
}

void SampleSet::fill_one(std::uint32_t index, float* out) const noexcept {
  const auto pixels = images_.values().subspan(index * sample_values_, sample_values_);
  for (std::size_t i = 0; i < pixels.size(); ++i) out[i] = normalised_[pixels[i]];
}

void SampleSet::fill(std::span<const std::uint32_t> indices, std::span<float> samples,
                     std::span<std::int32_t> labels) const {
  ASSERT(labels.size() == indices.size() && samples.size() == indices.size() * sample_values_);
  const auto all = this->labels();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    ASSERT(indices[i] < size_);
    fill_one(indices[i], samples.data() + i * sample_values_);
    labels[i] = all[indices[i]];
  }
}

void SampleSet::fill_range(std::uint32_t first, std::span<float> samples,
                           std::span<std::int32_t> labels) const {
  ASSERT(first <= size_ && labels.size() <= size_ - first);
  ASSERT(samples.size() == labels.size() * sample_values_);
  const auto all = this->labels().subspan(first);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    fill_one(first + static_cast<std::uint32_t>(i), samples.data() + i * sample_values_);
    labels[i] = all[i];
  }
}

base::Hash128 SampleSet::hash() const {
  const std::array both{images_.hash(), labels_.hash()};
  return base::xxh3_128(base::bytes_of(std::span(both)));
}

std::span<const std::string_view> known_sources() noexcept { return kSourceNames; }

base::Result<Dataset> load(const Config& config, const std::string& cache_folder) {
  const auto source = std::ranges::find(kSources, config.source, &Source::name);
  if (source == kSources.end()) {
    return fail(ErrorCode::run_file, "data.source: '{}' is not known; known are: {}", config.source,
                fmt::join(kSourceNames, ", "));
  }
  const std::string folder = config.path.empty() ? std::string(source->folder) : config.path;
  if (folder.empty()) {
    return fail(ErrorCode::data, "data set '{}' has no default place: {}", source->name,
                source->how_to_get);
  }
  auto train = read_set(*source, folder, "train", cache_folder);
  if (!train) return fail(train.error());
  auto test = read_set(*source, folder, "t10k", cache_folder);
  if (!test) return fail(test.error());
  if (train->sample_shape() != test->sample_shape()) {
    return fail(ErrorCode::data, "{}: training and test images differ in shape", folder);
  }
  const std::array hashes{train->hash(), test->hash()};
  const base::Hash128 identity = base::xxh3_128(base::bytes_of(std::span(hashes)));
  return Dataset{std::move(*train), std::move(*test), source->classes, identity};
}

}  // namespace starling::data
