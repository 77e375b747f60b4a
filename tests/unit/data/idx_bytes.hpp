// IDX and gzip files made in memory.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <zlib.h>

#include "base/bytes.hpp"

namespace starling::data::testing {

inline base::Bytes idx_bytes(const std::vector<std::uint32_t>& shape,
                             const std::vector<std::uint8_t>& values) {
  base::Bytes bytes{std::byte{0}, std::byte{0}, std::byte{8}, std::byte(shape.size())};
  for (const std::uint32_t side : shape) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(std::byte(side >> shift & 255));
  }
  for (const std::uint8_t value : values) bytes.push_back(std::byte{value});
  return bytes;
}

inline base::Bytes gzip(const base::Bytes& plain) {
  z_stream stream{};
  BOOST_REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  base::Bytes packed(plain.size() + 1024);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  BOOST_REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

inline void write(const std::string& path, const base::Bytes& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  BOOST_REQUIRE(file.good());
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace starling::data::testing
