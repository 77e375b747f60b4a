#include "runtime/addresses_file.hpp"

#include <fstream>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "membership/limits.hpp"
#include "tests/temporary_folder.hpp"
#include "wire/messages.hpp"

using namespace starling;
using runtime::read_addresses;
using runtime::write_addresses;

namespace {

using Addresses = std::vector<std::string>;

struct Folder : testing::TemporaryFolder {
  void put(const std::string& text) const {
    std::ofstream(path() + "/" + runtime::kAddressesFile, std::ios::binary) << text;
  }
  void is_refused(const std::string& line) const {
    const auto read = read_addresses(path());
    BOOST_REQUIRE(!read);
    BOOST_TEST((read.error().code == base::ErrorCode::data));
    BOOST_TEST(read.error().text.find(line) != std::string::npos, read.error().text);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(addresses_file, Folder)

BOOST_AUTO_TEST_CASE(what_is_written_comes_back_in_its_order) {
  BOOST_TEST(read_addresses(path()).value() == Addresses{});  // no file yet
  const Addresses two{"10.0.0.2:7000", "a.host:1"};
  BOOST_REQUIRE(write_addresses(path(), two));
  BOOST_TEST(read_addresses(path()).value() == two);
  BOOST_REQUIRE(write_addresses(path(), {}));
  BOOST_TEST(read_addresses(path()).value() == Addresses{});
}

BOOST_AUTO_TEST_CASE(addresses_that_nobody_could_dial_are_left_out) {
  const std::string long_host = std::string(wire::kAddressMax, 'h') + ":1";
  BOOST_REQUIRE(write_addresses(path(), Addresses{"x\n10.9.9.9:1:1", "no port", "host:0",
                                                  "\x1b[31m:5", long_host, "good:2"}));
  BOOST_TEST(read_addresses(path()).value() == Addresses{"good:2"});
}

BOOST_AUTO_TEST_CASE(a_damaged_file_is_refused_and_its_line_named) {
  put("good:2\nbad\n");
  is_refused("line 2");
  put("good:2\ngood:3");  // cut off
  is_refused("line 2");
  std::string many;
  for (std::size_t i = 0; i <= membership::kRememberedMax; ++i) many += "h:1\n";
  put(many);
  is_refused("line 33");
  put(std::string(1 << 20, 'x'));
  is_refused("addresses.txt");
}

BOOST_AUTO_TEST_SUITE_END()
