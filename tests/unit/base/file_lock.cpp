#include "base/file_lock.hpp"

#include <csignal>

#include <boost/test/unit_test.hpp>
#include <sys/wait.h>
#include <unistd.h>

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

BOOST_AUTO_TEST_CASE(a_child_keeps_nobody_from_a_lock_and_takes_it_from_nobody) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "lock";
  auto held = FileLock::take(path).value();
  BOOST_REQUIRE(held.has_value());
  const pid_t ending = ::fork();
  if (ending == 0) {
    held.reset();
    ::_exit(0);
  }
  BOOST_REQUIRE(::waitpid(ending, nullptr, 0) == ending);
  BOOST_TEST(!FileLock::take(path).value().has_value());
  const pid_t lasting = ::fork();
  if (lasting == 0) {
    for (;;) ::pause();
  }
  held.reset();
  BOOST_TEST(FileLock::take(path).value().has_value());
  ::kill(lasting, SIGKILL);
  BOOST_REQUIRE(::waitpid(lasting, nullptr, 0) == lasting);
}

BOOST_AUTO_TEST_CASE(who_is_killed_leaves_no_lock_to_its_children) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "lock";
  int tells[2];
  BOOST_REQUIRE(::pipe(tells) == 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    const auto held = FileLock::take(path).value();
    if (::fork() == 0) {
      const pid_t child = held ? ::getpid() : 0;
      (void)!::write(tells[1], &child, sizeof child);
    }
    for (;;) ::pause();
  }
  pid_t lasting = 0;
  BOOST_REQUIRE(::read(tells[0], &lasting, sizeof lasting) == sizeof lasting);
  BOOST_REQUIRE(lasting != 0);
  BOOST_TEST(!FileLock::take(path).value().has_value());
  ::kill(holder, SIGKILL);
  BOOST_REQUIRE(::waitpid(holder, nullptr, 0) == holder);
  BOOST_TEST(FileLock::is_free(path));
  BOOST_TEST(FileLock::take(path).value().has_value());
  ::kill(lasting, SIGKILL);
  ::close(tells[0]);
  ::close(tells[1]);
}

BOOST_AUTO_TEST_CASE(a_lock_is_free_that_nobody_holds_and_not_one_that_is_not_there) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "lock";
  BOOST_TEST(!FileLock::is_free(path));
  {
    const auto held = FileLock::take(path).value();
    BOOST_TEST(!FileLock::is_free(path));
  }
  BOOST_TEST(FileLock::is_free(path));
  BOOST_TEST(FileLock::take(path).value().has_value());
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_made_is_an_error) {
  const auto taken = FileLock::take("/none/lock");
  BOOST_REQUIRE(!taken.has_value());
  BOOST_TEST(taken.error().text.find("/none/lock: cannot be opened") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
