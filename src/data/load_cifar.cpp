// CIFAR-10 and CIFAR-100 in their binary version (www.cs.toronto.edu/~kriz/cifar.html): records of
// one label byte (CIFAR-100: the coarse one, then the fine one, which is used) and 3 x 32 x 32
// pixels.
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "data/array_set.hpp"
#include "data/sources.hpp"

namespace starling::data {
namespace {

using base::ErrorCode;
using base::fail;

constexpr std::size_t kPixels = std::size_t{3} * 32 * 32;
constexpr std::uint64_t kFileBytesMax = std::uint64_t{4} << 30;

struct Cifar {
  std::string_view name;
  std::span<const std::string_view> train;  ///< files
  std::span<const std::string_view> test;
  std::size_t label_bytes;  ///< of a record; the last one counts
  std::uint32_t classes;
  std::array<Normalisation, 3> normalisation;  ///< of the training pixels
  const char* how_to_get;
};

constexpr std::array<std::string_view, 5> kTrain10{"data_batch_1.bin", "data_batch_2.bin",
                                                   "data_batch_3.bin", "data_batch_4.bin",
                                                   "data_batch_5.bin"};
constexpr std::array<std::string_view, 1> kTest10{"test_batch.bin"};
constexpr std::array<std::string_view, 1> kTrain100{"train.bin"};
constexpr std::array<std::string_view, 1> kTest100{"test.bin"};

constexpr std::array kCifars{
    Cifar{"cifar10",
          kTrain10,
          kTest10,
          1,
          10,
          {{{0.4914, 0.2470}, {0.4822, 0.2435}, {0.4465, 0.2616}}},
          "set data.path to the folder cifar-10-batches-bin of CIFAR-10's binary version"},
    Cifar{"cifar100",
          kTrain100,
          kTest100,
          2,
          100,
          {{{0.5071, 0.2673}, {0.4865, 0.2564}, {0.4409, 0.2762}}},
          "set data.path to the folder cifar-100-binary of CIFAR-100's binary version"},
};

/// The content of some files' records; their bytes go to `storage`.
struct Records {
  std::unique_ptr<const SampleSet> set;
  std::vector<base::Hash128> hashes;
};

base::Result<Records> read_records(const LoadOptions& options, const Cifar& cifar,
                                   const std::string& folder,
                                   std::span<const std::string_view> files,
                                   std::vector<Storage>& storage) {
  const std::size_t record = cifar.label_bytes + kPixels;
  Inputs inputs{.shape = {3, 32, 32}};
  inputs.normalisation = normalisation_of(options.config, inputs, cifar.normalisation);
  Answers answers{.classes = cifar.classes};
  Records records;
  for (const std::string_view name : files) {
    const std::string path = fmt::format("{}/{}", folder, name);
    auto file = base::MappedFile::open(path, kFileBytesMax);
    if (!file) {
      base::Error error = file.error();
      error.text += fmt::format(" (data set '{}': {})", cifar.name, cifar.how_to_get);
      return fail(std::move(error));
    }
    const base::ByteView bytes = storage.emplace_back(std::move(*file)).view();
    if (bytes.empty() || bytes.size() % record != 0) {
      return fail(
          ErrorCode::data,
          "{}: has {} bytes, which is not a multiple of {}, a record of {}: it is truncated, "
          "or another file; fetch it again",
          path, bytes.size(), record, cifar.name);
    }
    const auto count = static_cast<std::uint32_t>(bytes.size() / record);
    inputs.blocks.push_back({bytes.data() + cifar.label_bytes, record, count});
    for (std::uint32_t i = 0; i < count; ++i) {
      answers.labels.push_back(
          std::to_integer<std::int32_t>(bytes[i * record + cifar.label_bytes - 1]));
    }
    records.hashes.push_back(base::xxh3_128(bytes));
  }
  auto set = ArraySet::make(std::move(inputs), std::move(answers), folder);
  if (!set) return fail(set.error());
  records.set = std::move(*set);
  return records;
}

}  // namespace

base::Result<Dataset> load_cifar(const LoadOptions& options) {
  const Cifar& cifar = options.config.source == kCifars[0].name ? kCifars[0] : kCifars[1];
  const auto folder = only_path(options.config, "", cifar.how_to_get);
  if (!folder) return fail(folder.error());
  Dataset dataset;
  auto train = read_records(options, cifar, *folder, cifar.train, dataset.storage);
  if (!train) return fail(train.error());
  auto test = read_records(options, cifar, *folder, cifar.test, dataset.storage);
  if (!test) return fail(test.error());
  const std::array hashes{combine(train->hashes), combine(test->hashes)};
  dataset.identity = combine(hashes);
  dataset.train = std::move(train->set);
  dataset.test = std::move(test->set);
  return dataset;
}

}  // namespace starling::data
