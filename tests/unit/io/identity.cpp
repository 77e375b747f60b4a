#include "io/identity.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <boost/test/unit_test.hpp>
#include <openssl/err.h>
#include <sys/stat.h>

#include "tests/temporary_folder.hpp"

using namespace starling;
using starling::io::Identity;

BOOST_AUTO_TEST_SUITE(identity)

BOOST_AUTO_TEST_CASE(a_stored_identity_is_found_again) {
  const testing::TemporaryFolder folder;
  const auto first = Identity::load_or_create(folder.path());
  const auto second = Identity::load_or_create(folder.path());
  BOOST_REQUIRE((first && second));
  BOOST_TEST(first->id().hex() == second->id().hex());
  BOOST_TEST(first->id().hex() != Identity::generate()->id().hex());
}

BOOST_AUTO_TEST_CASE(only_the_owner_can_read_the_key_and_nothing_else_is_left) {
  const testing::TemporaryFolder folder;
  BOOST_REQUIRE(Identity::load_or_create(folder.path()));
  struct stat info {};
  BOOST_REQUIRE(::stat((folder.path() + "/key.pem").c_str(), &info) == 0);
  BOOST_TEST((info.st_mode & 0777) == 0600U);
  const std::filesystem::directory_iterator files(folder.path());
  BOOST_TEST(std::distance(begin(files), end(files)) == 1);
}

BOOST_AUTO_TEST_CASE(a_damaged_key_file_is_named_and_kept) {
  const std::string encrypted =
      "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIGbMFcG\n-----END ENCRYPTED PRIVATE KEY-----\n";
  for (const std::string& content : {std::string(), std::string("not a key"), encrypted}) {
    const testing::TemporaryFolder folder;
    const std::string path = folder.path() + "/key.pem";
    std::ofstream(path) << content;
    const auto loaded = Identity::load_or_create(folder.path());
    BOOST_REQUIRE(!loaded);
    BOOST_TEST((loaded.error().code == base::ErrorCode::data));
    BOOST_TEST(loaded.error().text.find(path) != std::string::npos);
    BOOST_TEST(std::filesystem::file_size(path) == content.size());
    BOOST_TEST(ERR_peek_error() == 0U);
  }
}

BOOST_AUTO_TEST_CASE(a_missing_folder_is_an_error) {
  const auto loaded = Identity::load_or_create("/nonexistent/folder");
  BOOST_REQUIRE(!loaded);
  BOOST_TEST(loaded.error().text.find("/nonexistent/folder") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
