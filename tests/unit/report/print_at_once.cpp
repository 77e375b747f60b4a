#include "report/print_at_once.hpp"

#include <array>
#include <string>

#include <boost/test/unit_test.hpp>
#include <fcntl.h>
#include <unistd.h>

#include "base/descriptor.hpp"

using starling::base::Descriptor;

BOOST_AUTO_TEST_SUITE(print_at_once)

BOOST_AUTO_TEST_CASE(who_takes_nothing_is_not_waited_for) {
  std::array<int, 2> ends{};
  BOOST_REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
  const Descriptor reader(ends[0]);
  std::FILE* writer = fdopen(ends[1], "w");
  BOOST_REQUIRE(writer != nullptr);
  const std::string page(4096, 'x');
  const int size = fcntl(ends[1], F_GETPIPE_SZ);
  for (int left = size; left > 0; left -= static_cast<int>(page.size())) {
    starling::report::print_at_once(writer, page);
  }
  starling::report::print_at_once(writer, "lost");
  std::string taken(static_cast<std::size_t>(size), '\0');
  BOOST_TEST(read(reader.get(), taken.data(), taken.size()) == size);
  starling::report::print_at_once(writer, "heard");
  taken.resize(static_cast<std::size_t>(read(reader.get(), taken.data(), taken.size())));
  BOOST_TEST(taken == "heard");
  std::fclose(writer);
}

BOOST_AUTO_TEST_SUITE_END()
