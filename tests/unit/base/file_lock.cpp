#include "base/file_lock.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/temporary_folder.hpp"

using namespace starling;
using base::FileLock;

BOOST_AUTO_TEST_SUITE(file_lock)

BOOST_AUTO_TEST_CASE(one_holder_at_a_time) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "lock";
  {
    auto held = FileLock::take(path).value();
    BOOST_REQUIRE(held.has_value());
    BOOST_TEST(!FileLock::take(path).value().has_value());
    const FileLock moved = std::move(*held);
    held.reset();
    BOOST_TEST(!FileLock::take(path).value().has_value());
  }
  BOOST_TEST(FileLock::take(path).value().has_value());
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_made_is_an_error) {
  const auto taken = FileLock::take("/none/lock");
  BOOST_REQUIRE(!taken.has_value());
  BOOST_TEST(taken.error().text.find("/none/lock: cannot be opened") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
