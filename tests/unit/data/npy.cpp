#include "data/npy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "data/dataset.hpp"
#include "idx_bytes.hpp"
#include "tests/temporary_folder.hpp"

using namespace starling;
using namespace starling::data;
using namespace starling::data::testing;

namespace {

/// As numpy.save writes it; `header` is the dictionary.
base::Bytes npy_bytes(std::string header, base::ByteView values, int version = 1) {
  const std::size_t before = version == 1 ? 10 : 12;
  while ((before + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  const auto size = static_cast<std::uint32_t>(header.size());
  bytes.append(reinterpret_cast<const char*>(&size), version == 1 ? 2 : 4);
  bytes += header;
  const auto view = base::bytes_of(bytes.data(), bytes.size());
  base::Bytes all(view.begin(), view.end());
  all.insert(all.end(), values.begin(), values.end());
  return all;
}

std::string header_of(const std::string& type, const std::string& shape) {
  return "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
}

template <class Value>
base::Bytes array_bytes(const std::string& type, const std::string& shape,
                        const std::vector<Value>& values) {
  return npy_bytes(header_of(type, shape), base::bytes_of(std::span(values)));
}

struct NpyFiles {
  NpyFiles() {
    config.source = "npy";
    config.path = {folder.path()};
    for (int i = 0; i < 60; ++i) x.push_back(static_cast<float>(i) / 4);
    for (int i = 0; i < 20; ++i) y.push_back(i % 4);
    put("x_train", array_bytes("<f4", "20, 3", x));
    put("y_train", array_bytes("<i8", "20,", y));
  }

  void put(const std::string& name, const base::Bytes& bytes) {
    write(folder / (name + ".npy"), bytes);
  }
  Dataset loaded() {
    auto dataset = load(config);
    BOOST_REQUIRE_MESSAGE(dataset.has_value(), (dataset ? "" : dataset.error().text));
    return std::move(*dataset);
  }
  std::string error() {
    const auto dataset = load(config);
    BOOST_REQUIRE(!dataset.has_value());
    BOOST_TEST((dataset.error().code == base::ErrorCode::data));
    return dataset.error().text;
  }
  std::string error_of(const base::Bytes& x_train) {
    put("x_train", x_train);
    return error();
  }

  starling::testing::TemporaryFolder folder;
  Config config;
  std::vector<float> x;
  std::vector<std::int64_t> y;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(npy, NpyFiles)

BOOST_AUTO_TEST_CASE(floats_come_as_they_are_each_in_one_of_the_sets) {
  config.test_fraction = 0.25;
  const Dataset dataset = loaded();
  BOOST_TEST(dataset.train->size() == 15U);
  BOOST_TEST(dataset.test->size() == 5U);
  BOOST_TEST(dataset.format().classes == 4U);
  BOOST_TEST(dataset.format().shape == std::vector<std::uint32_t>{3});
  BOOST_TEST(dataset.train->labels().size() == 15U);
  std::set<int> seen;
  for (const SampleSet* set : {dataset.train.get(), dataset.test.get()}) {
    BatchBuffer batch;
    set->fill_range(0, set->size(), batch);
    for (std::size_t i = 0; i < set->size(); ++i) {
      const auto sample = static_cast<int>(batch.samples[3 * i] * 4 / 3);
      BOOST_TEST(batch.samples[3 * i + 2] == x[3 * static_cast<std::size_t>(sample) + 2]);
      BOOST_TEST(batch.labels[i] == sample % 4);
      BOOST_TEST(seen.insert(sample).second);
    }
  }
  BOOST_TEST(seen.size() == 20U);
}

BOOST_AUTO_TEST_CASE(sorted_arrays_have_every_label_in_both_sets) {
  std::ranges::sort(y);
  put("y_train", array_bytes("<i8", "20,", y));
  config.test_fraction = 0.2;
  const Dataset dataset = loaded();
  for (const SampleSet* set : {dataset.train.get(), dataset.test.get()}) {
    const auto labels = set->labels();
    BOOST_TEST(std::set(labels.begin(), labels.end()).size() == 4U);
  }
}

BOOST_AUTO_TEST_CASE(test_files_are_the_test_set) {
  put("x_test", array_bytes("<f4", "2, 3", std::vector<float>{1, 2, 3, 4, 5, 6}));
  put("y_test", array_bytes("|u1", "2", std::vector<std::uint8_t>{6, 0}));
  const Dataset dataset = loaded();
  BOOST_TEST(dataset.train->size() == 20U);
  BOOST_TEST(dataset.format().classes == 7U);
  BatchBuffer batch;
  dataset.test->fill_range(1, 1, batch);
  BOOST_TEST(batch.samples == (std::vector<float>{4, 5, 6}));
}

BOOST_AUTO_TEST_CASE(bytes_are_images_that_are_normalised) {
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < 20 * 2 * 4 * 5; ++i) pixels.push_back(static_cast<std::uint8_t>(i * 7));
  put("x_train", array_bytes("|u1", "20, 2, 4, 5", pixels));
  const Dataset dataset = loaded();
  BOOST_TEST(dataset.format().shape == (std::vector<std::uint32_t>{2, 4, 5}));
  BatchBuffer batch;
  dataset.train->fill_range(0, 18, batch);
  double sum = 0;
  for (const float value : batch.samples) sum += static_cast<double>(value);
  BOOST_TEST(std::abs(sum) < 1e-2);
  put("x_train", array_bytes("|u1", "20, 8, 5", pixels));
  BOOST_TEST(loaded().format().shape == (std::vector<std::uint32_t>{1, 8, 5}));
}

BOOST_AUTO_TEST_CASE(float_answers_are_targets) {
  std::vector<float> targets;
  for (int i = 0; i < 40; ++i) targets.push_back(static_cast<float>(-i));
  put("y_train", array_bytes("<f4", "20, 2", targets));
  const Dataset dataset = loaded();
  BOOST_TEST(dataset.format().classes == 0U);
  BOOST_TEST(dataset.format().target_shape == std::vector<std::uint32_t>{2});
  BatchBuffer batch;
  for (const SampleSet* set : {dataset.train.get(), dataset.test.get()}) {
    set->fill_range(1, 1, batch);
    const float sample = batch.samples[0] * 4 / 3;
    BOOST_TEST(batch.targets == (std::vector<float>{-2 * sample, -2 * sample - 1}));
    BOOST_TEST(batch.labels.empty());
  }
  put("y_train", array_bytes("<f4", "20,", std::vector<float>(20, 0.5F)));
  BOOST_TEST(loaded().format().target_shape == std::vector<std::uint32_t>{1});
  config.split = Split::dirichlet;
  BOOST_TEST(contains(load(config).error().text, "use data.split = \"iid\""));
}

BOOST_AUTO_TEST_CASE(all_versions_and_spellings_of_the_header_are_read) {
  const auto values = base::bytes_of(std::span(std::as_const(x)));
  for (const int version : {1, 2, 3}) {
    const auto header = npy_header(npy_bytes(header_of("<f4", "20, 3"), values, version), "file");
    BOOST_REQUIRE(header.has_value());
    BOOST_TEST(header->values == 60U);
    BOOST_TEST(header->values_at % 64 == 0U);
  }
  for (const char* text : {"{\"shape\":(20L,3L),\"fortran_order\":False,\"descr\":\"<f4\"}",
                           "{'shape': (20, 3), 'descr': '<f4', 'fortran_order': False}"}) {
    const auto header = npy_header(npy_bytes(text, values), "file");
    BOOST_REQUIRE(header.has_value());
    BOOST_TEST(header->shape == (std::vector<std::uint64_t>{20, 3}));
  }
  BOOST_TEST(npy_header(npy_bytes(header_of("<i4", ""), values), "file").value().values == 1U);
}

BOOST_AUTO_TEST_CASE(damaged_file_is_refused) {
  const auto whole = array_bytes("<f4", "20, 3", x);
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 9) {
    BOOST_TEST_CONTEXT("cut to " << size) {
      const std::string text =
          error_of({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
      BOOST_TEST(contains(text, folder / "x_train.npy"));
    }
  }
  auto bytes = whole;
  bytes.push_back(std::byte{0});
  BOOST_TEST(contains(error_of(bytes), "trailing bytes"));
  bytes.resize(whole.size() - 3);
  BOOST_TEST(contains(error_of(bytes),
                      "needs 240 bytes after the header, 237 are there: it is "
                      "truncated"));
  bytes = whole;
  bytes[6] = std::byte{9};
  BOOST_TEST(contains(error_of(bytes), "version 9"));
  for (const char* header :
       {"", "{", "{'descr': '<f4'}", "{'descr': [('a', '<f4')], 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, -2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 2}"}) {
    BOOST_TEST(contains(error_of(npy_bytes(header, {})), "its header is damaged"));
  }
  BOOST_TEST(
      contains(error_of(npy_bytes(header_of("<f4", "4294967296, 4294967296, 4294967296"), {})),
               "too many values"));
}

BOOST_AUTO_TEST_CASE(errors_show_nothing_that_a_terminal_obeys) {
  for (const std::string& header : {std::string("{\x1b[2J"), header_of("\x1b[2J", "20, 3")}) {
    BOOST_TEST(!contains(error_of(npy_bytes(header, {})), "\x1b"));
  }
}

BOOST_AUTO_TEST_CASE(arrays_of_another_kind_say_what_to_do) {
  BOOST_TEST(
      contains(error_of(array_bytes("<f8", "20, 3", std::vector<double>(60))), "has dtype '<f8'"));
  BOOST_TEST(contains(error_of(array_bytes(">f4", "20, 3", x)), "array.astype('float32')"));
  BOOST_TEST(
      contains(error_of(npy_bytes("{'descr': '<f4', 'fortran_order': True, 'shape': (20, 3), }",
                                  base::bytes_of(std::span(std::as_const(x))))),
               "numpy.ascontiguousarray"));
  BOOST_TEST(contains(error_of(array_bytes("<i4", "20, 1", std::vector<std::int32_t>(20))),
                      "holds int32; samples must be float32, or uint8"));
  BOOST_TEST(contains(error_of(array_bytes("<f4", "60", x)), "give it the shape (60, 1)"));
  BOOST_TEST(contains(error_of(array_bytes("<f4", "15, 1, 2, 1, 2", x)), "has the shape (15, 1"));
  BOOST_TEST(
      contains(error_of(array_bytes("<f4", "0, 3", std::vector<float>())), "has the shape (0, 3)"));
  BOOST_TEST(contains(error_of(array_bytes("<f4", "10, 6", x)), "10 samples, but 20 answers"));
  x[17] = std::numeric_limits<float>::quiet_NaN();
  BOOST_TEST(contains(error_of(array_bytes("<f4", "20, 3", x)), "element 17 is not finite"));
}

BOOST_AUTO_TEST_CASE(labels_out_of_range_are_named) {
  y[3] = -1;
  put("y_train", array_bytes("<i8", "20", y));
  BOOST_TEST(contains(error(), "label -1 of sample 3"));
  y[3] = std::int64_t{1} << 33;
  put("y_train", array_bytes("<i8", "20", y));
  BOOST_TEST(contains(error(), "label 8589934592 of sample 3"));
  put("y_train", array_bytes("<i8", "10, 2", y));
  BOOST_TEST(contains(error(), "has the shape (10, 2)"));
}

BOOST_AUTO_TEST_CASE(sets_that_do_not_belong_together_are_refused) {
  put("x_test", array_bytes("<f4", "2, 2", std::vector<float>(4)));
  put("y_test", array_bytes("<i4", "2", std::vector<std::int32_t>(2)));
  BOOST_TEST(contains(error(), "differ in shape"));
  put("x_test", array_bytes("<f4", "2, 3", std::vector<float>(6)));
  put("y_test", array_bytes("<f4", "2", std::vector<float>(2)));
  BOOST_TEST(contains(error(), "differ in shape or type"));
  std::filesystem::remove(folder / "y_test.npy");
  BOOST_TEST(contains(error(), "y_test.npy: cannot be opened"));
  BOOST_TEST(contains(error(), "set data.path to a folder with x_train.npy"));
}

BOOST_AUTO_TEST_CASE(half_of_a_test_set_is_none_and_the_missing_half_is_named) {
  put("y_test", array_bytes("<i4", "2", std::vector<std::int32_t>(2)));
  BOOST_TEST(contains(error(), "x_test.npy: cannot be opened"));
  std::filesystem::remove(folder / "y_test.npy");
  put("x_test", array_bytes("<f4", "2, 3", std::vector<float>(6)));
  BOOST_TEST(contains(error(), "y_test.npy: cannot be opened"));
}

BOOST_AUTO_TEST_CASE(targets_have_no_classes) {
  put("y_train", array_bytes("<f4", "20", std::vector<float>(20)));
  config.classes = 4;
  const auto refused = load(config);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().code == base::ErrorCode::run_file));
  BOOST_TEST(refused.error().text ==
             "data.classes counts labels, but samples of npy have targets: leave it out");
}

BOOST_AUTO_TEST_CASE(test_set_must_not_be_empty) {
  config.test_fraction = 0.01;
  BOOST_TEST(contains(error(), "taken for the test set: holds no samples"));
}

BOOST_AUTO_TEST_CASE(identity_follows_content_and_split) {
  const auto before = loaded().identity;
  BOOST_TEST((loaded().identity == before));
  config.test_fraction = 0.5;
  BOOST_TEST((loaded().identity != before));
  config.test_fraction = 0.1;
  y[0] = 3;
  put("y_train", array_bytes("<i8", "20,", y));
  BOOST_TEST((loaded().identity != before));
}

BOOST_AUTO_TEST_CASE(identity_of_private_data_is_that_of_its_form) {
  config.split = Split::private_data;
  const auto before = loaded().identity;
  config.test_fraction = 0.5;
  y[0] = 3;
  put("y_train", array_bytes("<i8", "20,", y));
  BOOST_TEST((loaded().identity == before));
  y[0] = 7;  // more classes
  put("y_train", array_bytes("<i8", "20,", y));
  BOOST_TEST((loaded().identity != before));
  config.classes = 9;
  const auto with_classes = loaded().identity;
  y[0] = 0;
  put("y_train", array_bytes("<i8", "20,", y));
  BOOST_TEST((loaded().identity == with_classes));
  BOOST_TEST(loaded().format().classes == 9U);
  config.classes = 2;
  const auto too_few = load(config);
  BOOST_REQUIRE(!too_few);
  BOOST_TEST(contains(too_few.error().text, "data.classes = 2 is too small: there is a label"));
}

// The meaning of a peer's pixels must not depend on its other data.
BOOST_AUTO_TEST_CASE(bytes_of_private_data_are_normalised_alike_everywhere) {
  config.split = Split::private_data;
  const auto first_values = [&](std::uint8_t offset) {
    std::vector<std::uint8_t> pixels(20 * 4);
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      pixels[i] = static_cast<std::uint8_t>(i + (i < 4 ? 0 : offset));
    }
    put("x_train", array_bytes("|u1", "20, 4", pixels));
    const Dataset dataset = loaded();
    BatchBuffer batch;
    dataset.train->fill_range(0, 1, batch);
    return batch.samples;
  };
  BOOST_TEST((first_values(0) == first_values(100)));
}

BOOST_AUTO_TEST_SUITE_END()
