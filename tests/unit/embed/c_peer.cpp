#include <array>
#include <string>

#include <boost/test/unit_test.hpp>

#include "starling/peer.h"

BOOST_AUTO_TEST_SUITE(embedded_peer_in_c)

BOOST_AUTO_TEST_CASE(a_buffer_without_sides_needs_a_value) {
  const std::array tensors{starling_tensor{.name = "one", .shape = nullptr, .rank = 0},
                           starling_tensor{.name = "another", .shape = nullptr, .rank = 0}};
  const std::array<float, 4> values{};
  starling_options options{};
  options.run_file = "none.toml";
  options.parameters = values.data();
  options.parameter_count = values.size();
  options.samples = 100;
  options.buffers = tensors.data();
  options.buffer_values = values.data();
  options.buffer_value_count = 1;
  options.buffer_count = tensors.size();
  BOOST_TEST(starling_peer_open(&options) == nullptr);
  BOOST_TEST(starling_last_error_kind() == STARLING_USAGE);
  BOOST_TEST(std::string(starling_last_error()) ==
             "buffers: 'another' has more values than the 0 left");
}

BOOST_AUTO_TEST_SUITE_END()
