#include "data/file_hash.hpp"

#include <filesystem>

#include "base/file.hpp"
#include "tests/temporary_folder.hpp"

using namespace starling;
using namespace starling::data;

namespace {

namespace fs = std::filesystem;

struct Files {
  Files() { write(std::string(kRememberedBytes, 'a')); }

  void write(const std::string& text) { folder.write("file", text); }

  base::MappedFile open() {
    auto file = base::MappedFile::open(folder / "file", 1 << 30);
    BOOST_REQUIRE(file.has_value());
    return std::move(*file);
  }

  base::Result<base::Hash128> hash(std::string_view check = "sound") { return hash(open(), check); }

  base::Result<base::Hash128> hash(const base::MappedFile& file, std::string_view check = "sound") {
    const auto run = [this]() -> base::Status {
      ++checks;
      if (sound) return {};
      return base::fail(base::ErrorCode::data, "unsound");
    };
    return file_hash(folder / "file", file.stamp(), file.view(), cache, {check, run});
  }

  starling::testing::TemporaryFolder folder;
  Cache cache{folder / "deep/cache"};
  int checks = 0;
  bool sound = true;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(file_hashes, Files)

BOOST_AUTO_TEST_CASE(large_file_is_read_once) {
  const auto expected = base::xxh3_128(std::string(kRememberedBytes, 'a'));
  BOOST_TEST((hash().value() == expected));
  BOOST_TEST((hash().value() == expected));
  BOOST_TEST(checks == 1);
  // A reader that finds the entry believes it.
  const auto entry = fs::directory_iterator(cache.folder)->path();
  std::string text = folder.text("deep/cache/" + entry.filename().string());
  text.back() = text.back() == '0' ? '1' : '0';
  folder.write("deep/cache/" + entry.filename().string(), text);
  BOOST_TEST((hash().value() != expected));
  BOOST_TEST(checks == 1);
}

BOOST_AUTO_TEST_CASE(what_one_check_has_passed_is_not_believed_of_another) {
  BOOST_TEST(hash("any").has_value());
  sound = false;
  BOOST_TEST(hash("any").has_value());
  BOOST_TEST(!hash().has_value());
  BOOST_TEST(checks == 2);
}

BOOST_AUTO_TEST_CASE(changed_file_is_read_again) {
  const auto before = hash().value();
  const auto time = fs::last_write_time(folder / "file");
  write(std::string(kRememberedBytes, 'b'));
  fs::last_write_time(folder / "file", time + std::chrono::nanoseconds(1));
  BOOST_TEST((hash().value() != before));
  write(std::string(kRememberedBytes + 1, 'b'));
  fs::last_write_time(folder / "file", time);
  hash().value();
  BOOST_TEST(checks == 3);
}

BOOST_AUTO_TEST_CASE(file_that_takes_the_place_of_an_open_one_has_its_own_hash) {
  const auto old = base::xxh3_128(std::string(kRememberedBytes, 'a'));
  const std::string text(kRememberedBytes, 'b');
  const base::MappedFile opened = open();
  folder.write("new", text);
  fs::rename(folder / "new", folder / "file");
  BOOST_TEST((hash(opened).value() == old));
  BOOST_TEST((hash().value() == base::xxh3_128(text)));  // not that of the file before it
  BOOST_TEST((hash(opened).value() == old));             // nor the other way round
  BOOST_TEST((hash().value() == base::xxh3_128(text)));
  BOOST_TEST(checks == 3);  // and the last one is remembered
}

BOOST_AUTO_TEST_CASE(damaged_entry_is_not_believed) {
  const auto before = hash().value();
  const auto entry = fs::directory_iterator(cache.folder)->path().filename().string();
  for (const std::string& damaged :
       {std::string(), folder.text("deep/cache/" + entry) + "0", std::string(200, 'x')}) {
    folder.write("deep/cache/" + entry, damaged);
    BOOST_TEST((hash().value() == before));
  }
  BOOST_TEST(checks == 4);
}

BOOST_AUTO_TEST_CASE(unsound_file_is_never_remembered) {
  sound = false;
  BOOST_TEST(hash().error().text == "unsound");
  BOOST_TEST(hash().error().text == "unsound");
  sound = true;
  BOOST_TEST(hash().has_value());
  BOOST_TEST(checks == 3);
}

BOOST_AUTO_TEST_CASE(long_reads_are_told_of_when_they_happen) {
  std::vector<std::string> told;
  cache.on_long_read = [&](const std::string& path, std::uint64_t bytes) {
    told.push_back(fmt::format("{} {}", fs::path(path).filename().string(), bytes));
  };
  hash().value();  // not a long file
  cache.long_read = kRememberedBytes + 1;
  write(std::string(kRememberedBytes + 1, 'a'));
  hash().value();
  hash().value();  // remembered
  const std::vector<std::string> expected{fmt::format("file {}", kRememberedBytes + 1)};
  BOOST_TEST(told == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(small_files_and_no_cache_leave_nothing_behind) {
  write("small");
  BOOST_TEST(hash().has_value());
  write(std::string(kRememberedBytes, 'a'));
  cache.folder = "";
  BOOST_TEST(hash().has_value());
  BOOST_TEST(!fs::exists(folder / "deep"));
}

BOOST_AUTO_TEST_SUITE_END()
