#include "data/idx.hpp"

#include "idx_bytes.hpp"
#include "tests/temporary_folder.hpp"

using namespace starling::data;
using namespace starling::data::testing;
using starling::base::Bytes;

namespace {

struct IdxFiles {
  IdxFiles() : values(6000) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i * i);
    plain = idx_bytes({60, 10, 10}, values);
    packed = gzip(plain);
  }

  /// The error of reading these bytes as `file`.gz.
  std::string error_of(const Bytes& bytes) {
    write(folder / "file.gz", bytes);
    const auto idx = read_idx(folder / "file");
    BOOST_REQUIRE(!idx.has_value());
    BOOST_TEST((idx.error().code == starling::base::ErrorCode::data));
    BOOST_TEST(contains(idx.error().text, folder / "file.gz"));
    return idx.error().text;
  }

  starling::testing::TemporaryFolder folder;
  std::vector<std::uint8_t> values;
  Bytes plain;
  Bytes packed;
};

bool equal(const Idx& idx, const std::vector<std::uint8_t>& values) {
  return std::ranges::equal(idx.values(), values);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(idx, IdxFiles)

BOOST_AUTO_TEST_CASE(plain_and_packed_files_read_the_same) {
  write(folder / "a", plain);
  write(folder / "b.gz", packed);
  const auto a = read_idx(folder / "a");
  const auto b = read_idx(folder / "b");
  BOOST_REQUIRE(a.has_value());
  BOOST_REQUIRE(b.has_value());
  BOOST_TEST(equal(*a, values));
  BOOST_TEST(equal(*b, values));
  BOOST_TEST((a->hash() == b->hash()));
  BOOST_TEST(b->shape()[0] == 60U);
  BOOST_TEST(b->shape().size() == 3U);
}

BOOST_AUTO_TEST_CASE(truncated_gzip_is_refused_at_every_length) {
  for (std::size_t size = 0; size < packed.size(); size += 1 + size / 7) {
    BOOST_TEST_CONTEXT("cut to " << size << " of " << packed.size()) {
      const std::string text =
          error_of(Bytes(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size)));
      BOOST_TEST(contains(text, "truncated"));
    }
  }
}

BOOST_AUTO_TEST_CASE(flipped_byte_is_refused) {
  for (std::size_t at = 12; at < packed.size(); at += 1 + packed.size() / 60) {
    BOOST_TEST_CONTEXT("byte " << at << " of " << packed.size()) {
      Bytes damaged = packed;
      damaged[at] ^= std::byte{0x40};
      BOOST_TEST(!error_of(damaged).empty());
    }
  }
}

BOOST_AUTO_TEST_CASE(bytes_after_the_gzip_data_are_refused) {
  Bytes longer = packed;
  longer.insert(longer.end(), 5, std::byte{0});
  BOOST_TEST(contains(error_of(longer), "5 trailing bytes"));
}

BOOST_AUTO_TEST_CASE(content_longer_or_shorter_than_announced_is_refused) {
  Bytes longer = plain;
  longer.push_back(std::byte{1});
  BOOST_TEST(contains(error_of(gzip(longer)), "more than its IDX header announces"));
  Bytes shorter = plain;
  shorter.pop_back();
  BOOST_TEST(contains(error_of(gzip(shorter)), "less than an IDX file needs (1 bytes missing)"));
}

BOOST_AUTO_TEST_CASE(header_that_announces_gigabytes_takes_no_memory) {
  BOOST_TEST(contains(error_of(gzip(idx_bytes({1U << 30}, {1, 2, 3}))), "can hold"));
  BOOST_TEST(contains(error_of(gzip(idx_bytes({1U << 31, 1U << 31}, {}))), "more than"));
}

BOOST_AUTO_TEST_CASE(wrong_magic_is_named) {
  Bytes floats = plain;
  floats[2] = std::byte{0x0d};
  BOOST_TEST(contains(error_of(gzip(floats)), "wrong magic 0x00000d03"));
  write(folder / "text", Bytes(100, std::byte{'x'}));
  BOOST_TEST(contains(read_idx(folder / "text").error().text, "wrong magic 0x78787878"));
}

BOOST_AUTO_TEST_CASE(plain_file_with_wrong_length_is_refused) {
  Bytes longer = plain;
  longer.push_back(std::byte{1});
  write(folder / "a", longer);
  BOOST_TEST(contains(read_idx(folder / "a").error().text, "trailing bytes"));
  write(folder / "a", Bytes(plain.begin(), plain.end() - 1));
  BOOST_TEST(contains(read_idx(folder / "a").error().text, "truncated"));
  write(folder / "a", Bytes(plain.begin(), plain.begin() + 9));
  BOOST_TEST(contains(read_idx(folder / "a").error().text, "cut off in its IDX header"));
  write(folder / "a", {});
  BOOST_TEST(contains(read_idx(folder / "a").error().text, "too short"));
}

BOOST_AUTO_TEST_CASE(missing_file_is_named) {
  BOOST_TEST(contains(read_idx(folder / "none").error().text, "no such file"));
}

BOOST_AUTO_TEST_CASE(cache_is_used_and_mended) {
  write(folder / "a.gz", packed);
  const std::string cache = folder / "cache";
  BOOST_REQUIRE(read_idx(folder / "a", cache).has_value());
  const auto entries = std::filesystem::directory_iterator(cache);
  const std::string cached = entries->path().string();

  // The cache's content is read: the source keeps only its name and trailer.
  Bytes hollow(packed.size(), std::byte{0});
  std::copy(packed.end() - 8, packed.end(), hollow.end() - 8);
  write(folder / "a.gz", hollow);
  const auto again = read_idx(folder / "a", cache);
  BOOST_REQUIRE(again.has_value());
  BOOST_TEST(equal(*again, values));

  // A damaged cache is not believed, and is written anew.
  write(folder / "a.gz", packed);
  Bytes damaged = starling::base::read_file(cached, 1 << 20).value();
  damaged.back() ^= std::byte{1};
  write(cached, damaged);
  const auto mended = read_idx(folder / "a", cache);
  BOOST_REQUIRE(mended.has_value());
  BOOST_TEST(equal(*mended, values));
  BOOST_TEST((starling::base::read_file(cached, 1 << 20).value() != damaged));
}

BOOST_AUTO_TEST_CASE(folder_that_cannot_hold_a_cache_is_no_error) {
  write(folder / "a.gz", packed);
  write(folder / "file", plain);
  BOOST_TEST(read_idx(folder / "a", folder / "file/cache").has_value());
}

BOOST_AUTO_TEST_SUITE_END()
