#include "compute/cpu/max_pool.hpp"

#include <cmath>
#include <vector>

#include <boost/test/unit_test.hpp>

using namespace starling::compute::cpu;

BOOST_AUTO_TEST_SUITE(max_pool)

BOOST_AUTO_TEST_CASE(the_first_of_equals_is_chosen_and_alone_gets_the_gradient) {
  const MaxPoolShape shape{.planes = 1,
                           .block = 1,
                           .height = 2,
                           .width = 4,
                           .out_height = 1,
                           .out_width = 2,
                           .kernel = 2,
                           .stride = 2};
  const std::vector<float> source{1, 3, -2, -1, 3, 0, -1, -4};
  std::vector<float> result(2);
  std::vector<std::int32_t> chosen(2);
  max_pool_forward(shape, false, source.data(), result.data(), chosen.data());
  BOOST_TEST((result == std::vector<float>{3, -1}));
  BOOST_TEST((chosen == std::vector<std::int32_t>{1, 1}));
  const std::vector<float> gradient{5, 7};
  std::vector<float> back(8, 99);
  max_pool_backward(shape, gradient.data(), chosen.data(), back.data());
  BOOST_TEST((back == std::vector<float>{0, 5, 0, 7, 0, 0, 0, 0}));
}

BOOST_AUTO_TEST_CASE(after_a_relu_windows_of_zeros_pass_no_gradient) {
  const MaxPoolShape shape{.planes = 1,
                           .block = 1,
                           .height = 1,
                           .width = 2,
                           .out_height = 1,
                           .out_width = 2,
                           .kernel = 1,
                           .stride = 1};
  const std::vector<float> source{0, 2};
  std::vector<float> result(2);
  std::vector<std::int32_t> chosen(2);
  max_pool_forward(shape, true, source.data(), result.data(), chosen.data());
  BOOST_TEST((chosen == std::vector<std::int32_t>{-1, 0}));
  const std::vector<float> gradient{5, 7};
  std::vector<float> back(2, 99);
  max_pool_backward(shape, gradient.data(), chosen.data(), back.data());
  BOOST_TEST((back == std::vector<float>{0, 7}));
}

BOOST_AUTO_TEST_CASE(what_is_no_number_comes_through_wherever_it_lies) {
  for (const std::size_t block : {1U, 8U}) {
    const MaxPoolShape shape{.planes = 1,
                             .block = block,
                             .height = 1,
                             .width = 3,
                             .out_height = 1,
                             .out_width = 1,
                             .kernel = 3,
                             .stride = 1};
    for (std::size_t at = 0; at < 3; ++at) {
      std::vector<float> source(3 * block, 1.0F);
      source[at * block] = std::nanf("");
      std::vector<float> result(block);
      std::vector<std::int32_t> chosen(block);
      max_pool_forward(shape, false, source.data(), result.data(), chosen.data());
      BOOST_TEST(std::isnan(result[0]));
      BOOST_TEST((block == 1 || result[1] == 1.0F));
    }
  }
}

BOOST_AUTO_TEST_CASE(every_block_gives_what_single_channels_give) {
  for (const std::size_t block : {3U, 8U, 16U}) {
    MaxPoolShape shape{.planes = 2,
                       .block = block,
                       .height = 5,
                       .width = 6,
                       .out_height = 2,
                       .out_width = 2,
                       .kernel = 3,
                       .stride = 2};
    const std::size_t results = shape.planes * shape.out_height * shape.out_width * block;
    std::vector<float> source(shape.planes * shape.height * shape.width * block);
    for (std::size_t i = 0; i < source.size(); ++i) {
      source[i] = static_cast<float>((i * 7919) % 101);
    }
    std::vector<float> result(results);
    std::vector<std::int32_t> chosen(results);
    std::vector<float> back(source.size());
    max_pool_forward(shape, false, source.data(), result.data(), chosen.data());
    max_pool_backward(shape, result.data(), chosen.data(), back.data());

    MaxPoolShape single = shape;
    single.planes = 1;
    single.block = 1;
    for (std::size_t channel = 0; channel < 2 * block; ++channel) {
      const auto place = [&](std::size_t points, std::size_t i) {
        return (channel / block * points + i) * block + channel % block;
      };
      std::vector<float> image(30);
      for (std::size_t i = 0; i < 30; ++i) image[i] = source[place(30, i)];
      std::vector<float> expected(4);
      std::vector<std::int32_t> expected_chosen(4);
      std::vector<float> expected_back(30);
      max_pool_forward(single, false, image.data(), expected.data(), expected_chosen.data());
      max_pool_backward(single, expected.data(), expected_chosen.data(), expected_back.data());
      for (std::size_t i = 0; i < 4; ++i) BOOST_TEST(result[place(4, i)] == expected[i]);
      for (std::size_t i = 0; i < 4; ++i) BOOST_TEST(chosen[place(4, i)] == expected_chosen[i]);
      for (std::size_t i = 0; i < 30; ++i) BOOST_TEST(back[place(30, i)] == expected_back[i]);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
