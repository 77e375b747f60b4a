#include "base/file.hpp"

#include <filesystem>

#include <boost/test/unit_test.hpp>
#include <sys/stat.h>

#include "base/hash.hpp"
#include "base/hasher.hpp"
#include "tests/temporary_folder.hpp"

using namespace starling::base;

namespace {

ByteView bytes(const std::string& text) { return bytes_of(text.data(), text.size()); }

std::string as_text(ByteView content) {
  return {reinterpret_cast<const char*>(content.data()), content.size()};
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(file, starling::testing::TemporaryFolder)

BOOST_AUTO_TEST_CASE(parts_are_written_in_order_and_read_back) {
  const std::string one = "one ";
  const std::string two = "two";
  const ByteView parts[] = {bytes(one), bytes(two)};
  BOOST_REQUIRE(write_file_synced(path() + "/a", parts).has_value());
  BOOST_TEST(as_text(read_file(path() + "/a", 7).value()) == "one two");
  BOOST_TEST(as_text(MappedFile::open(path() + "/a", 7).value().view()) == "one two");
}

BOOST_AUTO_TEST_CASE(replacing_leaves_one_file_with_the_new_content) {
  for (const std::string content : {"old", "new"}) {
    const ByteView parts[] = {bytes(content)};
    BOOST_REQUIRE(replace_file(path() + "/a", parts).has_value());
  }
  BOOST_TEST(as_text(read_file(path() + "/a", 100).value()) == "new");
  BOOST_TEST(std::distance(std::filesystem::directory_iterator(path()), {}) == 1);
}

BOOST_AUTO_TEST_CASE(a_pipe_or_a_folder_is_not_replaced) {
  const std::string pipe = path() + "/pipe";
  BOOST_REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::filesystem::create_directory(path() + "/folder");
  std::filesystem::create_symlink("pipe", path() + "/link");
  for (const char* name : {"/pipe", "/folder", "/link"}) {
    const auto replaced = replace_file(path() + name, {});
    BOOST_REQUIRE(!replaced.has_value());
    BOOST_TEST((replaced.error().code == ErrorCode::data));
    BOOST_TEST(replaced.error().text.find(name + 1 + std::string(": is not a regular file")) !=
               std::string::npos);
  }
  BOOST_TEST(std::filesystem::is_fifo(pipe));
  BOOST_TEST(std::filesystem::is_symlink(path() + "/link"));
  BOOST_TEST(std::distance(std::filesystem::directory_iterator(path()), {}) == 3);
}

BOOST_AUTO_TEST_CASE(a_symbolic_link_stays_and_its_file_is_replaced) {
  std::filesystem::create_directory(path() + "/folder");
  const std::string link = path() + "/link";
  std::filesystem::create_symlink("folder/a", link);
  BOOST_TEST(!replace_file(link, {}).has_value());  // leads to nothing
  BOOST_REQUIRE(write_file_synced(path() + "/folder/a", {}).has_value());
  const std::string content = "new";
  const ByteView parts[] = {bytes(content)};
  BOOST_REQUIRE(replace_file(link, parts).has_value());
  BOOST_TEST(std::filesystem::is_symlink(link));
  BOOST_TEST(as_text(read_file(path() + "/folder/a", 100).value()) == content);
}

BOOST_AUTO_TEST_CASE(a_private_file_is_its_owners_alone_and_made_once) {
  const std::string content = "first";
  BOOST_TEST(create_private_file(path() + "/a", bytes(content)).value());
  BOOST_TEST(!create_private_file(path() + "/a", bytes("second")).value());
  BOOST_TEST(as_text(read_file(path() + "/a", 100).value()) == content);
  BOOST_TEST(
      (std::filesystem::status(path() + "/a").permissions() == std::filesystem::perms(0600)));
  BOOST_TEST(std::distance(std::filesystem::directory_iterator(path()), {}) == 1);
  BOOST_TEST(!create_private_file(path() + "/none/a", {}).has_value());
}

BOOST_AUTO_TEST_CASE(file_over_the_limit_is_refused) {
  const std::string content = "12345678";
  const ByteView parts[] = {bytes(content)};
  BOOST_REQUIRE(write_file_synced(path() + "/a", parts).has_value());
  BOOST_TEST(read_file(path() + "/a", 7).error().text.find("8 bytes, at most 7") !=
             std::string::npos);
  BOOST_TEST(!MappedFile::open(path() + "/a", 7).has_value());
}

BOOST_AUTO_TEST_CASE(what_is_no_regular_file_is_refused) {
  BOOST_TEST(read_file(path(), 100).error().text.find("not a regular file") != std::string::npos);
  BOOST_TEST(read_file(path() + "/none", 100).error().text.find("cannot be opened") !=
             std::string::npos);
  BOOST_TEST(!replace_file(path() + "/none/a", {}).has_value());
  BOOST_TEST(!sync_folder(path() + "/none").has_value());
}

BOOST_AUTO_TEST_CASE(empty_file_gives_an_empty_view) {
  BOOST_REQUIRE(write_file_synced(path() + "/a", {}).has_value());
  BOOST_TEST(MappedFile::open(path() + "/a", 0).value().view().empty());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(hasher)

BOOST_AUTO_TEST_CASE(pieces_hash_like_the_whole) {
  const std::string whole(1000, 'x');
  Hasher pieces;
  for (std::size_t at = 0; at < whole.size(); at += 250) {
    pieces.update(bytes(whole).subspan(at, 250));
  }
  BOOST_TEST(pieces.digest() == xxh3(whole));
}

BOOST_AUTO_TEST_SUITE_END()
