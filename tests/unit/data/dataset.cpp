#include "data/dataset.hpp"

#include <cmath>

#include <fmt/core.h>

#include "idx_bytes.hpp"
#include "tests/temporary_folder.hpp"

using namespace starling::data;
using namespace starling::data::testing;

namespace {

constexpr std::uint32_t kTrain = 30;
constexpr std::uint32_t kTest = 20;

/// A small "mnist" in a folder: 2x3 images, pixel = 10 * sample + place, label = sample mod 10.
struct DatasetFolder {
  DatasetFolder() {
    config.source = "mnist";
    config.path = {folder.path()};
    write_set("train", kTrain);
    write_set("t10k", kTest);
  }

  void write_set(const std::string& prefix, std::uint32_t count) {
    std::vector<std::uint8_t> pixels;
    std::vector<std::uint8_t> labels;
    for (std::uint32_t i = 0; i < count; ++i) {
      for (std::uint32_t p = 0; p < 6; ++p) pixels.push_back(static_cast<std::uint8_t>(8 * i + p));
      labels.push_back(static_cast<std::uint8_t>(i % 10));
    }
    write(folder / (prefix + "-images-idx3-ubyte.gz"), gzip(idx_bytes({count, 2, 3}, pixels)));
    write_labels(prefix, labels);
  }

  void write_labels(const std::string& prefix, const std::vector<std::uint8_t>& labels) {
    write(folder / (prefix + "-labels-idx1-ubyte.gz"),
          gzip(idx_bytes({static_cast<std::uint32_t>(labels.size())}, labels)));
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

BOOST_FIXTURE_TEST_SUITE(dataset, DatasetFolder)

BOOST_AUTO_TEST_CASE(samples_come_normalised_with_their_labels) {
  const auto dataset = load(config);
  BOOST_REQUIRE(dataset.has_value());
  BOOST_TEST(dataset->train->size() == kTrain);
  BOOST_TEST(dataset->test->size() == kTest);
  BOOST_TEST(dataset->format().classes == 10U);
  BOOST_TEST(dataset->format().shape == (std::vector<std::uint32_t>{1, 2, 3}));
  BatchBuffer batch;
  dataset->train->fill(std::vector<std::uint32_t>{17, 4}, {}, batch);
  BOOST_TEST(batch.count == 2U);
  BOOST_TEST(batch.labels == (std::vector<std::int32_t>{7, 4}));
  const auto normal = [](double pixel) {
    return static_cast<float>((pixel / 255.0 - 0.1307) / 0.3081);
  };
  BOOST_TEST(batch.samples[0] == normal(8 * 17));
  BOOST_TEST(batch.samples[11] == normal(8 * 4 + 5));
  dataset->train->fill_range(17, 2, batch);
  BOOST_TEST(batch.samples[0] == normal(8 * 17));
  BOOST_TEST(batch.labels == (std::vector<std::int32_t>{7, 8}));
}

BOOST_AUTO_TEST_CASE(identity_follows_the_content) {
  const auto before = load(config).value().identity;
  BOOST_TEST((load(config).value().identity == before));
  BOOST_TEST((load(config, 0, {folder / "cache"}).value().identity == before));
  BOOST_TEST((load(config, 0, {folder / "cache"}).value().identity == before));
  write_labels("t10k", std::vector<std::uint8_t>(kTest, 1));
  BOOST_TEST((load(config).value().identity != before));
}

BOOST_AUTO_TEST_CASE(missing_data_set_says_how_to_get_it) {
  config = Config{};
  config.path = {folder / "nowhere"};
  BOOST_TEST(contains(error(), folder / "nowhere/train-images-idx3-ubyte"));
  BOOST_TEST(contains(error(), "apt-get install dataset-fashion-mnist"));
  config.source = "mnist";
  config.path.clear();
  BOOST_TEST(contains(error(), "set data.path"));
}

BOOST_AUTO_TEST_CASE(unknown_source_lists_the_known_ones) {
  config.source = "fashion";
  BOOST_TEST(contains(error(), "did you mean 'fashion-mnist'?"));
}

BOOST_AUTO_TEST_CASE(files_that_do_not_belong_together_are_refused) {
  write_labels("train", std::vector<std::uint8_t>(kTrain - 1, 1));
  BOOST_TEST(contains(error(), "30 samples but 29 labels"));
}

BOOST_AUTO_TEST_CASE(label_out_of_range_is_refused) {
  std::vector<std::uint8_t> labels(kTrain, 9);
  labels[12] = 10;
  write_labels("train", labels);
  BOOST_TEST(contains(error(), "label 10 of sample 12"));
}

BOOST_AUTO_TEST_CASE(images_where_labels_should_be_are_refused) {
  write(folder / "train-labels-idx1-ubyte.gz", gzip(idx_bytes({2, 2}, {0, 0, 0, 0})));
  BOOST_TEST(contains(error(), "labels 2 (1 is needed)"));
}

BOOST_AUTO_TEST_CASE(sets_of_different_shape_are_refused) {
  write(folder / "t10k-images-idx3-ubyte.gz",
        gzip(idx_bytes({kTest, 1, 1}, std::vector<std::uint8_t>(kTest))));
  BOOST_TEST(contains(error(), "differ in shape"));
}

BOOST_AUTO_TEST_CASE(classes_and_normalisation_of_any_idx_files_come_from_the_samples) {
  config.source = "idx";
  std::vector<std::uint8_t> labels(kTest, 3);
  labels[7] = 12;
  write_labels("t10k", labels);
  const auto dataset = load(config).value();
  BOOST_TEST(dataset.format().classes == 13U);
  BatchBuffer batch;
  dataset.train->fill_range(0, kTrain, batch);
  double sum = 0;
  double squares = 0;
  for (const float value : batch.samples) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const auto count = static_cast<double>(batch.samples.size());
  BOOST_TEST(std::abs(sum / count) < 1e-5);
  BOOST_TEST(std::abs(squares / count - 1) < 1e-5);
}

// Peers of one run may call the same files by different names.
BOOST_AUTO_TEST_CASE(private_bytes_are_normalised_alike_whatever_the_source_is_called) {
  config.split = Split::private_data;
  config.classes = 10;
  const auto values_of = [&](const char* source) {
    config.source = source;
    const auto dataset = load(config).value();
    BatchBuffer batch;
    dataset.train->fill_range(0, kTrain, batch);
    return std::pair(batch.samples, dataset.identity);
  };
  BOOST_TEST((values_of("idx") == values_of("mnist")));
  BOOST_TEST((values_of("idx") == values_of("fashion-mnist")));
  BOOST_TEST(values_of("mnist").first[1] == (1.0F / 255 - 0.5F) / 0.25F,
             boost::test_tools::tolerance(1e-5F));
}

BOOST_AUTO_TEST_CASE(images_with_channels_have_a_normalisation_each) {
  config.source = "idx";
  std::vector<std::uint8_t> pixels;
  for (std::uint8_t i = 0; i < 60; ++i) pixels.push_back(i % 6 < 3 ? i : 200);
  for (const auto& [prefix, count] : {std::pair{"train", 10U}, {"t10k", 10U}}) {
    write(folder / fmt::format("{}-images-idx4-ubyte", prefix),
          idx_bytes({count, 2, 1, 3}, pixels));
    write_labels(prefix, std::vector<std::uint8_t>(count, 1));
  }
  const auto dataset = load(config).value();
  BOOST_TEST(dataset.format().shape == (std::vector<std::uint32_t>{2, 1, 3}));
  BatchBuffer batch;
  dataset.train->fill_range(0, 10, batch);
  BOOST_TEST(std::abs(batch.samples[0]) > 1.0F);
  BOOST_TEST(batch.samples[3] == 0.0F);
}

BOOST_AUTO_TEST_CASE(keys_that_do_not_fit_the_samples_are_refused) {
  config.augmentation.crop = 2;
  BOOST_TEST(contains(error(), "data.crop = 2 moves images of mnist out of sight: at most 1"));
  config.augmentation.crop = 1;
  BOOST_TEST(load(config).has_value());
  config.test_path = {folder.path()};
  BOOST_TEST(
      contains(error(), "data.test_path names files of text, but samples of mnist are none"));
  config.test_path.clear();
  config.path.push_back("another");
  BOOST_TEST(contains(error(), "takes one folder, not 2"));
}

BOOST_AUTO_TEST_CASE(formats_that_no_file_decides_are_known_without_files) {
  const auto images = known_format({.source = "fashion-mnist"}, 0);
  BOOST_REQUIRE(images.has_value());
  BOOST_TEST((images->shape == std::vector<std::uint32_t>{1, 28, 28}));
  BOOST_TEST(images->classes == 10U);
  const auto bytes = known_format({.source = "text"}, 64);
  BOOST_REQUIRE(bytes.has_value());
  BOOST_TEST((bytes->shape == std::vector<std::uint32_t>{64}));
  BOOST_TEST(bytes->vocabulary == 256U);
  BOOST_TEST(!known_format({.source = "text", .vocabulary = "words.json"}, 64).has_value());
  BOOST_TEST(known_format({.source = "cifar100"}, 0)->classes == 100U);
  BOOST_TEST(!known_format({.source = "idx"}, 0).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
