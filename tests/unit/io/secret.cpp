#include "io/secret.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "tests/temporary_folder.hpp"

using namespace starling;
using starling::io::Secret;

BOOST_AUTO_TEST_SUITE(secret)

BOOST_AUTO_TEST_CASE(what_was_created_is_loaded_and_is_not_another_one) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() + "/secret";
  BOOST_REQUIRE(Secret::create(path));
  BOOST_REQUIRE(Secret::create(path + "-2"));
  const auto first = Secret::load(path);
  const auto again = Secret::load(path);
  const auto other = Secret::load(path + "-2");
  BOOST_REQUIRE((first && again && other));
  BOOST_TEST(std::ranges::equal(first->bytes(), again->bytes()));
  BOOST_TEST(!std::ranges::equal(first->bytes(), other->bytes()));
  BOOST_TEST((std::filesystem::status(path).permissions() == std::filesystem::perms(0600)));
}

BOOST_AUTO_TEST_CASE(a_file_that_is_there_stays_as_it_is) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() + "/secret";
  std::ofstream(path) << "mine";
  const auto created = Secret::create(path);
  BOOST_REQUIRE(!created);
  BOOST_TEST((created.error().code == base::ErrorCode::usage));
  BOOST_TEST(std::filesystem::file_size(path) == 4U);
}

BOOST_DATA_TEST_CASE(
    what_is_no_secret_is_named,
    boost::unit_test::data::make({std::string(), std::string(63, 'a'), std::string(65, 'a'),
                                  std::string(63, 'a') + "g", "0x" + std::string(62, 'a'),
                                  std::string(62, 'a') + "-1", std::string(1000, 'a')}),
    content) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() + "/secret";
  std::ofstream(path) << content;
  const auto loaded = Secret::load(path);
  BOOST_REQUIRE(!loaded);
  BOOST_TEST((loaded.error().code == base::ErrorCode::run_file));
  BOOST_TEST(loaded.error().text.find(path) != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_file_that_is_not_there_says_how_to_make_one) {
  const auto loaded = Secret::load("/nonexistent/secret");
  BOOST_REQUIRE(!loaded);
  BOOST_TEST(loaded.error().text.find("starling keygen") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
