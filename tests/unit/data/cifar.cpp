// The sources "cifar10" and "cifar100".
#include <cmath>

#include "data/dataset.hpp"
#include "idx_bytes.hpp"
#include "tests/temporary_folder.hpp"

using namespace starling;
using namespace starling::data;
using namespace starling::data::testing;

namespace {

constexpr std::size_t kPixelCount = 3072;

/// Records: the labels, then pixels that are all the record's number.
base::Bytes records(std::uint32_t first, std::uint32_t count, bool coarse) {
  base::Bytes bytes;
  for (std::uint32_t i = first; i < first + count; ++i) {
    if (coarse) bytes.push_back(std::byte{99});
    bytes.push_back(static_cast<std::byte>(i % 10));
    bytes.insert(bytes.end(), kPixelCount, static_cast<std::byte>(i));
  }
  return bytes;
}

struct CifarFolder {
  CifarFolder() {
    for (std::uint32_t i = 0; i < 5; ++i) {
      write(folder / ("data_batch_" + std::to_string(i + 1) + ".bin"),
            records(10 * i, 10 + i, false));
    }
    write(folder / "test_batch.bin", records(200, 7, false));
    write(folder / "train.bin", records(0, 30, true));
    write(folder / "test.bin", records(100, 5, true));
    config.source = "cifar10";
    config.path = {folder.path() + "/"};
  }

  std::string error() {
    const auto dataset = load(config);
    BOOST_REQUIRE(!dataset.has_value());
    return dataset.error().text;
  }

  starling::testing::TemporaryFolder folder;
  Config config;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cifar, CifarFolder)

BOOST_AUTO_TEST_CASE(records_of_all_files_are_samples) {
  const auto dataset = load(config).value();
  BOOST_TEST(dataset.train->size() == 60U);
  BOOST_TEST(dataset.test->size() == 7U);
  BOOST_TEST(dataset.format().shape == (std::vector<std::uint32_t>{3, 32, 32}));
  BOOST_TEST(dataset.format().classes == 10U);
  BOOST_TEST((known_format(config, 0) == dataset.format()));
  BatchBuffer batch;
  // The second file begins with sample 10, the third with sample 21.
  dataset.train->fill(std::vector<std::uint32_t>{9, 10, 21}, {}, batch);
  BOOST_TEST(batch.labels == (std::vector<std::int32_t>{9, 0, 0}));
  const auto normal = [](double pixel, double mean, double std) {
    return static_cast<float>((pixel / 255.0 - mean) / std);
  };
  BOOST_TEST(batch.samples[0] == normal(9, 0.4914, 0.2470));
  BOOST_TEST(batch.samples[kPixelCount + 1024] == normal(10, 0.4822, 0.2435));
  BOOST_TEST(batch.samples[3 * kPixelCount - 1] == normal(20, 0.4465, 0.2616));
}

BOOST_AUTO_TEST_CASE(cifar100_has_fine_labels) {
  config.source = "cifar100";
  const auto dataset = load(config).value();
  BOOST_TEST(dataset.train->size() == 30U);
  BOOST_TEST(dataset.format().classes == 100U);
  BOOST_TEST((known_format(config, 0) == dataset.format()));
  BatchBuffer batch;
  dataset.test->fill_range(3, 1, batch);
  BOOST_TEST(batch.labels == std::vector<std::int32_t>{3});
  BOOST_TEST(std::abs(batch.samples[0] - static_cast<float>((103 / 255.0 - 0.5071) / 0.2673)) <
             1e-6F);
}

BOOST_AUTO_TEST_CASE(private_pixels_are_normalised_as_all_peers_agree) {
  config.split = Split::private_data;
  const auto dataset = load(config).value();
  BatchBuffer batch;
  dataset.train->fill_range(9, 1, batch);
  const auto agreed = static_cast<float>((9 / 255.0 - 0.5) / 0.25);
  BOOST_TEST(batch.samples == std::vector<float>(kPixelCount, agreed));
}

BOOST_AUTO_TEST_CASE(bad_files_are_refused) {
  auto bytes = records(0, 3, false);
  bytes.pop_back();
  write(folder / "test_batch.bin", bytes);
  BOOST_TEST(contains(error(), "test_batch.bin: has 9218 bytes, which is not a multiple of 3073"));
  write(folder / "test_batch.bin", {});
  BOOST_TEST(contains(error(), "has 0 bytes"));
  bytes = records(0, 3, false);
  bytes[3073] = std::byte{10};
  write(folder / "test_batch.bin", bytes);
  BOOST_TEST(contains(error(), "label 10 of sample 1 is not below 10"));
  std::filesystem::remove(folder / "data_batch_4.bin");
  BOOST_TEST(contains(error(), "data_batch_4.bin: cannot be opened"));
  BOOST_TEST(contains(error(), "set data.path to the folder cifar-10-batches-bin"));
  config.path.clear();
  BOOST_TEST(contains(error(), "has no default place"));
}

BOOST_AUTO_TEST_SUITE_END()
