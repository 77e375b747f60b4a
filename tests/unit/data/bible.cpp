#include "data/bible.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>

#include "base/hash.hpp"
#include "base/rng.hpp"
#include "data/dataset.hpp"
#include "data/lzw.hpp"
#include "idx_bytes.hpp"
#include "tests/temporary_folder.hpp"

using namespace starling;
using namespace starling::data;
using namespace starling::data::testing;

namespace {

/// Packs as compress(1) does. `clear_at`: empties the table when it has that many codes.
class Packer {
 public:
  explicit Packer(std::uint32_t clear_at) : clear_at_(clear_at) {}

  base::Buffer pack(std::string_view text) {
    restart();
    std::string prefix;
    for (const char c : text) {
      if (codes_.contains(prefix + c)) {
        prefix += c;
        continue;
      }
      put(codes_[prefix]);
      if (next_ < 65536) codes_[prefix + c] = next_++;
      prefix = c;
      if (next_ == clear_at_) {
        put(256);
        align();
        bits_ = 9;
        restart();
      }
    }
    if (!prefix.empty()) put(codes_[prefix]);
    return out_;
  }

 private:
  void restart() {
    codes_.clear();
    for (int c = 0; c < 256; ++c) codes_[std::string(1, static_cast<char>(c))] = c;
    next_ = 257;
  }
  /// The unpacker knows an entry one code later than the packer.
  void put(std::uint32_t code) {
    if (next_ - 1 > (1U << bits_) - 1 && bits_ < 16) {
      align();
      ++bits_;
    }
    for (std::uint32_t i = 0; i < bits_; ++i, ++at_) put_bit(code >> i & 1);
  }
  void put_bit(std::uint32_t bit) {
    if (at_ % 8 == 0) out_.push_back(std::byte{0});
    out_.back() |= static_cast<std::byte>(bit << (at_ % 8));
  }
  void align() {
    for (; (at_ - begin_) % (8 * bits_) != 0; ++at_) put_bit(0);
    begin_ = at_;
  }

  std::uint32_t clear_at_;
  std::map<std::string, std::uint32_t> codes_;
  std::uint32_t next_ = 257;
  std::uint32_t bits_ = 9;
  std::size_t at_ = 0;
  std::size_t begin_ = 0;
  base::Buffer out_;
};

std::string as_text(const base::Buffer& bytes) { return std::string(base::text_of(bytes)); }

/// Words that come again and again, and runs of one byte.
std::string some_text(std::size_t size, std::uint64_t seed) {
  base::Rng rng(seed);
  std::string text;
  while (text.size() < size) {
    const std::uint64_t word = rng.below(2000);
    if (word == 0) text.append(rng.below(300), 'a');
    text += std::to_string(word * word) + ' ';
  }
  text.resize(size);
  return text;
}

void put_number(base::Buffer& bytes, std::size_t at, std::size_t number) {
  for (std::size_t i = 0; i < 4; ++i) {
    bytes[at + i] = static_cast<std::byte>(number >> (24 - 8 * i));
  }
}

/// A data file as the package has it.
base::Buffer bible_file(const std::string& text, std::size_t window) {
  const std::size_t windows = (text.size() + window - 1) / window;
  base::Buffer file(92 + 4 * (windows + 1) + 3);
  std::ranges::copy(std::as_bytes(std::span("EC02", 4)), file.begin());
  std::ranges::copy(std::as_bytes(std::span("\x1f\x9d\x90", 3)), file.end() - 3);
  put_number(file, 84, window);
  put_number(file, 88, windows);
  for (std::size_t i = 0; i < windows; ++i) {
    put_number(file, 92 + 4 * i, file.size());
    const auto packed = Packer(0).pack(std::string_view(text).substr(i * window, window));
    file.insert(file.end(), packed.begin(), packed.end());
  }
  put_number(file, 92 + 4 * windows, file.size());
  return file;
}

const std::string kText =
    "Some Bible, 1611.\nGe1:1 In the beginning.\n2Ch36:23 Thus: saith.\nRev22:21 Amen.\n";
const std::string kVerses = "In the beginning.\nThus: saith.\nAmen.\n";

struct BibleFile {
  std::string error_of(const base::Buffer& bytes) {
    write(folder / "bible.data", bytes);
    const auto text = read_bible(folder / "bible.data");
    BOOST_REQUIRE(!text.has_value());
    BOOST_TEST((text.error().code == base::ErrorCode::data));
    return text.error().text;
  }

  starling::testing::TemporaryFolder folder;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(lzw)

BOOST_AUTO_TEST_CASE(what_was_packed_comes_out) {
  for (const std::uint32_t clear_at : {0U, 300U, 5000U}) {
    for (const std::size_t size : {0U, 1U, 2U, 300U, 700U, 20000U, 300000U}) {
      BOOST_TEST_CONTEXT("clear at " << clear_at << ", " << size << " bytes, seed 7") {
        const std::string text = some_text(size, 7);
        const auto unpacked = unpack_lzw(Packer(clear_at).pack(text), size, "file");
        BOOST_REQUIRE(unpacked.has_value());
        BOOST_TEST((as_text(*unpacked) == text));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(more_than_allowed_is_refused) {
  const auto packed = Packer(0).pack(some_text(5000, 7));
  BOOST_TEST(contains(unpack_lzw(packed, 4999, "file").error().text, "more than 4999 bytes"));
}

BOOST_AUTO_TEST_CASE(any_bytes_end_well) {
  base::Rng rng(9);
  for (int i = 0; i < 300; ++i) {
    base::Buffer bytes(rng.below(2000));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng());
    const auto unpacked = unpack_lzw(bytes, 1 << 16, "file");
    if (unpacked) BOOST_TEST(unpacked->size() <= 1U << 16);
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(bible, BibleFile)

BOOST_AUTO_TEST_CASE(verses_come_without_title_and_numbers) {
  for (const std::size_t window : {7U, 30U, 1000U}) {
    write(folder / "bible.data", bible_file(kText, window));
    const auto text = read_bible(folder / "bible.data");
    BOOST_REQUIRE(text.has_value());
    BOOST_TEST(as_text(*text) == kVerses);
  }
}

BOOST_AUTO_TEST_CASE(it_is_a_source) {
  write(folder / "bible.data", bible_file(kText, 1000));
  Config config;
  config.source = "bible-kjv";
  config.path = {folder / "bible.data"};
  config.test_fraction = 0.3;
  const auto dataset = load(config, 4).value();
  BatchBuffer batch;
  dataset.train->fill_range(1, 1, batch);
  BOOST_TEST(std::string(batch.tokens.begin(), batch.tokens.end()) == "he b");
  BOOST_TEST(dataset.format().vocabulary == 256U);
}

BOOST_AUTO_TEST_CASE(missing_file_says_how_to_get_it) {
  BOOST_TEST(contains(read_bible(folder / "none").error().text, "apt-get install bible-kjv-text"));
}

BOOST_AUTO_TEST_CASE(damaged_file_is_refused) {
  const auto whole = bible_file(kText, 30);
  for (std::size_t size = 0; size + 1 < whole.size(); ++size) {
    BOOST_TEST_CONTEXT("cut to " << size) {
      BOOST_TEST(
          contains(error_of({whole.begin(), whole.begin() + static_cast<long>(size)}), "damaged"));
    }
  }
  for (const std::size_t at : {0U, 84U, 88U, 92U, 96U}) {
    auto damaged = whole;
    damaged[at] = std::byte{0xff};
    BOOST_TEST(contains(error_of(damaged), "damaged"));
  }
}

BOOST_AUTO_TEST_CASE(the_packages_text_is_known) {
  if (!std::filesystem::exists(kBibleFile)) return;
  const auto text = read_bible(kBibleFile);
  BOOST_REQUIRE(text.has_value());
  BOOST_TEST(text->size() == 4137850U);
  BOOST_TEST(std::ranges::count(*text, std::byte{'\n'}) == 31102);
  BOOST_TEST(
      as_text(*text).starts_with("In the beginning God created the heaven and the earth.\n"));
}

BOOST_AUTO_TEST_SUITE_END()
