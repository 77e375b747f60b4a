#include <array>
#include <cstddef>
#include <string>

#include <boost/test/unit_test.hpp>

#include "starling/peer.h"

BOOST_AUTO_TEST_SUITE(embedded_peer_in_c)

BOOST_AUTO_TEST_CASE(a_buffer_without_sides_needs_a_value) {
  const std::array tensors{starling_tensor{.name = "one", .shape = nullptr, .rank = 0},
                           starling_tensor{.name = "another", .shape = nullptr, .rank = 0}};
  const std::array<float, 4> values{};
  starling_options options;
  starling_options_init(&options);
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

// Each states its own size: bytes after that are not read.
BOOST_AUTO_TEST_CASE(options_of_an_older_header_are_taken_and_unknown_ones_are_not) {
  starling_options options;
  starling_options_init(&options);
  options.run_file = "none.toml";
  options.samples = 0;
  const auto error_with = [&](std::size_t size) {
    options.struct_size = size;
    BOOST_TEST(starling_peer_open(&options) == nullptr);
    BOOST_TEST(starling_last_error_kind() == STARLING_USAGE);
    return std::string(starling_last_error());
  };
  const float parameter = 1;
  options.parameters = &parameter;
  options.parameter_count = 1;
  BOOST_TEST(error_with(sizeof options).starts_with("samples: are 0"));
  BOOST_TEST(error_with(offsetof(starling_options, dataset)).starts_with("samples: are 0"));
  BOOST_TEST(error_with(offsetof(starling_options, parameters)).starts_with("parameters: are 0"));
  for (const std::size_t size : {std::size_t{0}, sizeof options + 1}) {
    BOOST_TEST(error_with(size).starts_with("options: struct_size is " + std::to_string(size)));
  }
}

BOOST_AUTO_TEST_SUITE_END()
