#include "base/file.hpp"

#include <cerrno>
#include <csignal>
#include <filesystem>

#include <boost/test/unit_test.hpp>
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.hpp"
#include "base/hasher.hpp"
#include "tests/temporary_folder.hpp"

using namespace starling::base;

namespace {

ByteView bytes(const std::string& text) { return bytes_of(text.data(), text.size()); }

std::filesystem::perms mode_of(const std::string& path) {
  return std::filesystem::status(path).permissions();
}

bool has_hard_links = true;

std::string as_text(ByteView content) { return std::string(text_of(content)); }

/// While it lives, no file of this process grows beyond this number of bytes.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    BOOST_REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    BOOST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

}  // namespace

// In place of the C library's: a file system without hard links.
extern "C" int link(const char* from, const char* to) noexcept {
  if (!has_hard_links) {
    errno = EPERM;
    return -1;
  }
  using Function = int (*)(const char*, const char*);
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, "link"))(from, to);
}

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

BOOST_AUTO_TEST_CASE(a_new_file_has_the_mode_that_the_user_wants_and_an_old_one_keeps_its_own) {
  const std::string file = path() + "/a";
  const mode_t before = ::umask(0027);
  BOOST_TEST(replace_file(file, "new").has_value());
  ::umask(before);
  BOOST_TEST((mode_of(file) == std::filesystem::perms(0640)));
  std::filesystem::permissions(file, std::filesystem::perms(0606));
  BOOST_TEST(replace_file(file, "newer").has_value());
  BOOST_TEST((mode_of(file) == std::filesystem::perms(0606)));
}

BOOST_AUTO_TEST_CASE(what_a_crash_left_of_a_replacement_is_in_nobodys_way) {
  BOOST_REQUIRE(write_file_synced(path() + "/a.new0", {}).has_value());
  BOOST_TEST(replace_file(path() + "/a", "new").has_value());
  BOOST_TEST(as_text(read_file(path() + "/a", 100).value()) == "new");
}

BOOST_AUTO_TEST_CASE(a_pipe_or_a_folder_is_not_replaced) {
  const std::string pipe = path() + "/pipe";
  BOOST_REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::filesystem::create_directory(path() + "/folder");
  std::filesystem::create_symlink("pipe", path() + "/link");
  for (const char* name : {"/pipe", "/folder", "/link"}) {
    const auto replaced = replace_file(path() + name, "");
    BOOST_REQUIRE(!replaced.has_value());
    BOOST_TEST((replaced.error().code == ErrorCode::data));
    BOOST_TEST(replaced.error().text.find(name + 1 + std::string(": is not a regular file")) !=
               std::string::npos);
    const auto checked = check_replaceable(path() + name);
    BOOST_REQUIRE(!checked.has_value());
    BOOST_TEST(checked.error().text == replaced.error().text);
  }
  BOOST_TEST(std::filesystem::is_fifo(pipe));
  BOOST_TEST(std::filesystem::is_symlink(path() + "/link"));
  BOOST_TEST(check_replaceable(path() + "/new").has_value());
  BOOST_TEST(std::distance(std::filesystem::directory_iterator(path()), {}) == 3);
}

BOOST_AUTO_TEST_CASE(a_symbolic_link_stays_and_its_file_is_replaced) {
  std::filesystem::create_directory(path() + "/folder");
  const std::string link = path() + "/link";
  std::filesystem::create_symlink("folder/a", link);
  BOOST_TEST(!replace_file(link, "").has_value());  // leads to nothing
  BOOST_REQUIRE(write_file_synced(path() + "/folder/a", {}).has_value());
  const std::string content = "new";
  const ByteView parts[] = {bytes(content)};
  BOOST_REQUIRE(replace_file(link, parts).has_value());
  BOOST_TEST(std::filesystem::is_symlink(link));
  BOOST_TEST(as_text(read_file(path() + "/folder/a", 100).value()) == content);
}

BOOST_AUTO_TEST_CASE(a_text_is_written_as_it_is_and_folders_are_made_on_the_way) {
  const std::string folder = path() + "/one/two";
  BOOST_REQUIRE(make_folder(folder).has_value());
  BOOST_TEST(make_folder(folder).has_value());
  BOOST_REQUIRE(replace_file(folder + "/a", "a text").has_value());
  BOOST_TEST(as_text(read_file(folder + "/a", 100).value()) == "a text");
  const auto refused = make_folder(folder + "/a/b");
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().text.starts_with(folder + "/a/b: cannot be created: "));
}

BOOST_AUTO_TEST_CASE(an_appended_file_holds_whole_pieces_whatever_the_disk_takes) {
  const std::string file = path() + "/a";
  BOOST_REQUIRE(AppendedFile::open(file)->append("one ").has_value());
  auto appended = AppendedFile::open(file);
  BOOST_REQUIRE(appended);
  Status refused;
  {
    const FileSizeLimit disk(6);  // takes a part of the next piece
    refused = appended->append("two three");
  }
  BOOST_TEST(as_text(read_file(file, 100).value()) == "one ");
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().text.starts_with(file + ": cannot be written: "));
  BOOST_TEST(appended->append("four").has_value());
  BOOST_TEST(as_text(read_file(file, 100).value()) == "one four");
  BOOST_TEST(!AppendedFile::open(path() + "/none/a").has_value());
}

BOOST_AUTO_TEST_CASE(a_private_file_is_its_owners_alone_and_made_once) {
  const std::string content = "first";
  for (const bool links : {true, false}) {
    has_hard_links = links;
    const std::string file = path() + (links ? "/a" : "/b");
    BOOST_TEST(create_private_file(file, bytes(content)).value());
    BOOST_TEST(!create_private_file(file, bytes("second")).value());
    BOOST_TEST(as_text(read_file(file, 100).value()) == content);
    BOOST_TEST((mode_of(file) == std::filesystem::perms(0600)));
  }
  has_hard_links = true;
  BOOST_TEST(std::distance(std::filesystem::directory_iterator(path()), {}) == 2);
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
  BOOST_TEST(!replace_file(path() + "/none/a", "").has_value());
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
