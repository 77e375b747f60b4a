#include "data/token_set.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include <boost/test/unit_test.hpp>

#include "base/bytes.hpp"
#include "data/batch_stream.hpp"

using namespace starling;
using namespace starling::data;

namespace {

/// Tokens 0, 1, 2, ... in pieces of 7 bytes, 16-bit and 32-bit numbers.
struct Counting {
  explicit Counting(std::uint32_t size) {
    for (std::uint32_t i = 0; i < std::min(size, 7U); ++i) {
      narrow.push_back(static_cast<std::uint8_t>(i));
    }
    for (std::uint32_t i = 7; i < std::min(size, 300U); ++i) {
      middle.push_back(static_cast<std::uint16_t>(i));
    }
    for (std::uint32_t i = 300; i < size; ++i) wide.push_back(i);
    tokens.append(base::bytes_of(std::span(narrow)), 1);
    tokens.append(base::bytes_of(std::span(middle)), 2);
    tokens.append(base::bytes_of(std::span(wide)), 4);
  }

  std::vector<std::uint8_t> narrow;
  std::vector<std::uint16_t> middle;
  std::vector<std::uint32_t> wide;
  Tokens tokens;
};

std::vector<std::int32_t> copied(const Tokens& tokens, std::uint64_t first, std::size_t count) {
  std::vector<std::int32_t> out(count);
  tokens.copy(first, 1 << 30, out);
  return out;
}

std::vector<std::int32_t> counted(std::int32_t first, std::size_t count) {
  std::vector<std::int32_t> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

std::string error_of(std::uint32_t size, std::uint32_t context, TokenSet::Windows windows) {
  const Counting text(size);
  const auto set = TokenSet::make(text.tokens, 1000, context, windows, "text");
  BOOST_REQUIRE(!set.has_value());
  return set.error().text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(token_set)

BOOST_AUTO_TEST_CASE(tokens_are_one_row_whatever_their_pieces) {
  const Counting text(1000);
  BOOST_TEST(text.tokens.size() == 1000U);
  for (const std::uint64_t first : {0U, 5U, 6U, 7U, 298U, 300U, 700U}) {
    for (const std::size_t count : {0U, 1U, 2U, 296U, 300U}) {
      BOOST_TEST_CONTEXT("from " << first << ", " << count) {
        BOOST_TEST(copied(text.tokens, first, count) ==
                   counted(static_cast<std::int32_t>(first), count));
      }
    }
  }
  const Tokens part = text.tokens.part(5, 400);
  BOOST_TEST(part.size() == 400U);
  BOOST_TEST(copied(part, 0, 400) == counted(5, 400));
  BOOST_TEST(text.tokens.part(1000, 0).size() == 0U);
}

BOOST_AUTO_TEST_CASE(token_beyond_the_vocabulary_comes_out_as_its_last) {
  const Counting text(1000);
  std::vector<std::int32_t> out(4);
  text.tokens.copy(297, 298, out);
  BOOST_TEST(out == (std::vector<std::int32_t>{297, 298, 298, 298}));
}

BOOST_AUTO_TEST_CASE(sample_is_a_window_labelled_with_what_follows) {
  const Counting text(1000);
  const auto set = TokenSet::make(text.tokens, 1000, 8, TokenSet::Windows::fixed, "text").value();
  BOOST_TEST(set->size() == 124U);  // 1,000 tokens have 999 labels
  BOOST_TEST(set->format().shape == std::vector<std::uint32_t>{8});
  BOOST_TEST(set->format().vocabulary == 1000U);
  BOOST_TEST(set->format().labels() == 8U);
  BOOST_TEST(set->labels().empty());
  BatchBuffer batch;
  set->fill(std::vector<std::uint32_t>{3, 123}, {}, batch);
  BOOST_TEST(batch.samples.empty());
  BOOST_TEST(batch.targets.empty());
  auto tokens = counted(24, 8);
  auto labels = counted(25, 8);
  for (const std::int32_t token : counted(984, 8)) tokens.push_back(token);
  for (const std::int32_t token : counted(985, 8)) labels.push_back(token);
  BOOST_TEST(batch.tokens == tokens);
  BOOST_TEST(batch.labels == labels);
  BOOST_TEST(batch.view().tokens.data() == batch.tokens.data());
}

BOOST_AUTO_TEST_CASE(windows_of_one_shift_do_not_overlap_and_every_shift_fits) {
  const Counting text(345);
  const auto set =
      TokenSet::make(text.tokens, 1000, 10, TokenSet::Windows::shifted, "text").value();
  BOOST_TEST(set->size() == 33U);
  std::set<std::int32_t> labelled;
  for (std::uint32_t shift = 0; shift < 30; ++shift) {
    BatchBuffer batch;
    std::vector<std::uint32_t> all(set->size());
    std::iota(all.begin(), all.end(), 0U);
    set->fill(all, std::vector<std::uint32_t>(all.size(), shift), batch);
    BOOST_TEST(batch.tokens == counted(static_cast<std::int32_t>(shift % 10), 330));
    BOOST_TEST(batch.labels == counted(static_cast<std::int32_t>(shift % 10) + 1, 330));
    labelled.insert(batch.labels.begin(), batch.labels.end());
  }
  BOOST_TEST(labelled.size() == 339U);
}

BOOST_AUTO_TEST_CASE(windows_of_an_epoch_have_one_shift_wherever_it_ends_in_a_batch) {
  constexpr std::uint32_t kContext = 1000;
  const Counting text(7 * kContext + kContext);
  const auto set =
      TokenSet::make(text.tokens, 10'000, kContext, TokenSet::Windows::shifted, "text").value();
  BOOST_REQUIRE(set->size() == 7U);
  const Shards shards(set->size(), set->labels(), {}, 1);
  BatchStream stream(*set, shards, {}, 4, 5);
  std::vector<std::int32_t> begins;
  BatchBuffer batch;
  for (int i = 0; i < 7; ++i) {  // four epochs
    stream.next(batch);
    for (std::size_t s = 0; s < 4; ++s) begins.push_back(batch.tokens[s * kContext]);
  }
  std::set<std::int32_t> shifts;
  for (std::size_t epoch = 0; epoch < 4; ++epoch) {
    std::set<std::int32_t> windows;
    for (std::size_t i = 0; i < 7; ++i) {
      const std::int32_t begin = begins[epoch * 7 + i];
      BOOST_TEST(begin % 1000 == begins[epoch * 7] % 1000, "epoch " << epoch << ", window " << i);
      windows.insert(begin);
    }
    BOOST_TEST(windows.size() == 7U);
    shifts.insert(begins[epoch * 7] % 1000);
  }
  BOOST_TEST(shifts.size() == 4U);
}

BOOST_AUTO_TEST_CASE(text_that_is_too_short_says_how_much_is_needed) {
  BOOST_TEST(error_of(10, 10, TokenSet::Windows::fixed)
                 .find("has 10 tokens, but a context of 10 needs at least 11") !=
             std::string::npos);
  BOOST_TEST(error_of(19, 10, TokenSet::Windows::shifted).find("needs at least 20") !=
             std::string::npos);
  BOOST_TEST(error_of(0, 1, TokenSet::Windows::fixed).find("has 0 tokens") != std::string::npos);
  BOOST_TEST(error_of(10, 0, TokenSet::Windows::fixed).find("out of range: 1 to") !=
             std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
