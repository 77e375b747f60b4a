#include "io/loop.hpp"

#include <csignal>

#include <boost/test/unit_test.hpp>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using starling::io::Loop;

BOOST_AUTO_TEST_SUITE(loop)

// Each number of descriptors that are left in a process of its own, whose first loop it is.
BOOST_AUTO_TEST_CASE(without_descriptors_there_is_an_error_and_no_end_of_the_program) {
  for (rlim_t left = 0; left < 80; left += 2) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(SIGABRT, SIG_DFL);
      ::closefrom(0);
      const rlimit limit{.rlim_cur = left, .rlim_max = left};
      ::setrlimit(RLIMIT_NOFILE, &limit);
      const auto made = Loop::create();
      ::_exit(made ? 0 : made.error().code == starling::base::ErrorCode::network ? 1 : 2);
    }
    int status = -1;
    BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
    BOOST_REQUIRE_MESSAGE(WIFEXITED(status), left << " left: status " << status);
    BOOST_TEST(WEXITSTATUS(status) == (left < 64 ? 1 : 0), left << " left");
  }
}

BOOST_AUTO_TEST_SUITE_END()
