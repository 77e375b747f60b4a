#include "train/safetensors.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

using namespace starling;
using namespace starling::train;

BOOST_AUTO_TEST_SUITE(safetensors)

namespace {

base::Bytes file_of(const std::string& header, std::size_t data_bytes) {
  base::Bytes bytes(8 + header.size() + data_bytes);
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  return bytes;
}

bool accepted(const std::string& header, std::size_t data_bytes) {
  return parse_safetensors(file_of(header, data_bytes), "test").has_value();
}

std::string tensor(const std::string& name, const std::string& shape, const std::string& offsets,
                   const std::string& type = "F32") {
  return "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":[" + shape +
         "],\"data_offsets\":[" + offsets + "]}";
}

}  // namespace

BOOST_AUTO_TEST_CASE(files_of_other_writers_are_read) {
  const auto entries = parse_safetensors(
      file_of("{\"__metadata__\":{\"format\":\"pt\"}," + tensor("b", "2", "24,32") + "," +
                  tensor("a", "2,3", "0,24") + "," + tensor("none", "0,7", "24,24") + "}   ",
              32),
      "test");
  BOOST_REQUIRE(entries.has_value());
  BOOST_REQUIRE(entries->size() == 3U);
  BOOST_TEST((*entries)[0].name == "a");
  BOOST_TEST((*entries)[0].size == 6U);
  BOOST_TEST((*entries)[1].name == "none");
  BOOST_TEST((*entries)[2].name == "b");
  BOOST_TEST((*entries)[2].offset - (*entries)[0].offset == 24U);
  BOOST_TEST(accepted("{}", 0));
  BOOST_TEST(accepted("{" + tensor("scalar", "", "0,4") + "}", 4));
}

BOOST_AUTO_TEST_CASE(values_begin_at_a_multiple_of_eight) {
  const std::vector<float> values(3);
  for (const std::string name : {"a", "ab", "abc", "abcdefgh", "\"quoted\"\n"}) {
    const std::vector<TensorView> tensors{{name, {3}, values}};
    const std::string header = safetensors_header(tensors);
    BOOST_TEST(header.size() % 8 == 0U);
    const auto entries = parse_safetensors(file_of(header.substr(8), 12), "test");
    BOOST_REQUIRE(entries.has_value());
    BOOST_TEST(entries->at(0).name == name);
    BOOST_TEST(entries->at(0).offset == header.size());
  }
}

BOOST_AUTO_TEST_CASE(malformed_files_are_refused) {
  BOOST_TEST(accepted("{" + tensor("a", "2", "0,8") + "}", 8));
  const std::vector<std::pair<std::string, std::size_t>> malformed{
      {"", 0},
      {"[]", 0},
      {"{", 0},
      {"{}", 1},                                                                   // left over
      {"{" + tensor("a", "2", "0,8") + "}", 7},                                    // beyond the end
      {"{" + tensor("a", "2", "0,8") + "}", 12},                                   // left over
      {"{" + tensor("a", "3", "0,8") + "}", 8},                                    // size
      {"{" + tensor("a", "2", "8,0") + "}", 8},                                    // backwards
      {"{" + tensor("a", "2", "0,8") + "," + tensor("b", "2", "4,12") + "}", 12},  // overlap
      {"{" + tensor("a", "2", "0,8") + "," + tensor("b", "1", "12,16") + "}", 16},  // gap
      {"{" + tensor("a", "2", "0,8") + "," + tensor("b", "2", "0,8") + "}", 8},    // twice the same
      {"{" + tensor("a", "2", "0,8") + "," + tensor("a", "1", "8,12") + "}", 12},  // name twice
      {"{" + tensor("a", "1", "0,8", "F64") + "}", 8},                             // type
      {"{" + tensor("a", "2", "0,8", "F16") + "}", 8},                             // its size
      {"{" + tensor("a", "2", "0,8", "I64") + "}", 8},
      {"{" + tensor("a", "-2", "0,8") + "}", 8},                     // negative
      {"{" + tensor("a", "2.0", "0,8") + "}", 8},                    // not an integer
      {"{" + tensor("a", "4294967296,4294967296", "0,0") + "}", 0},  // overflow
      {"{" + tensor("a", "2", "0,18446744073709551615") + "}", 8},   // offset overflow
      {"{" + tensor("a", "1,1,1,1,1,1,1,1,2", "0,8") + "}", 8},      // rank
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8},              // key missing
      {"{\"a\":[1,2,3]}", 8},
      {"{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}", 0},
      {"{" + tensor("a", "2", "0,8") + "} x", 8},  // text after it
  };
  for (const auto& [header, bytes] : malformed) {
    BOOST_TEST_CONTEXT(header.substr(0, 100) << " with " << bytes << " bytes") {
      BOOST_TEST(!accepted(header, bytes));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_tensors_name_is_said_short_and_printable) {
  const std::string name = "\\u001b[2J" + std::string(1'000'000, 'x');
  const auto refused = parse_safetensors(file_of("{\"" + name + "\":1}", 0), "test");
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().text.find("test: tensor '?[2Jxxx") == 0U);
  BOOST_TEST(refused.error().text.size() < 300U);
}

BOOST_AUTO_TEST_CASE(narrow_floats_are_widened_exactly) {
  // 1, -2, the largest, the smallest normal, the smallest, -0, infinity; bfloat16 likewise.
  const std::vector<std::uint16_t> halves{0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x8000, 0x7c00};
  const std::vector<std::uint16_t> bfloats{0x3f80, 0xc000, 0x7f7f, 0x0080, 0x0001, 0x8000, 0x7f80};
  const float infinity = std::numeric_limits<float>::infinity();
  base::Bytes bytes = file_of(
      "{" + tensor("half", "7", "0,14", "F16") + "," + tensor("bfloat", "7", "14,28", "BF16") + "}",
      28);
  std::memcpy(bytes.data() + bytes.size() - 28, halves.data(), 14);
  std::memcpy(bytes.data() + bytes.size() - 14, bfloats.data(), 14);
  const auto file = TensorFile::parse(bytes, "test").value();
  std::vector<float> out(7);
  BOOST_REQUIRE(file.copy("half", std::vector<std::uint32_t>{7}, out));
  BOOST_TEST(out == (std::vector<float>{1, -2, 65504, 0x1p-14F, 0x1p-24F, -0.0F, infinity}));
  BOOST_TEST(std::signbit(out[5]));
  BOOST_REQUIRE(file.copy("bfloat", std::vector<std::uint32_t>{7}, out));
  BOOST_TEST(out ==
             (std::vector<float>{1, -2, 0x1.fep127F, 0x1p-126F, 0x1p-133F, -0.0F, infinity}));
  BOOST_TEST(std::signbit(out[5]));
}

BOOST_AUTO_TEST_CASE(counters_and_metadata_are_written) {
  const std::vector<float> values{1, 2};
  const std::vector<std::int64_t> count{7};
  const std::vector<TensorView> tensors{{"count", {}, count}, {"values", {2}, values}};
  const std::string header = safetensors_header(tensors, {{"format", "pt"}});
  BOOST_TEST(header.find("\"__metadata__\":{\"format\":\"pt\"}") != std::string::npos);
  base::Bytes bytes;
  for (const base::ByteView part : safetensors_parts(header, tensors)) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  const auto file = TensorFile::parse(bytes, "test").value();
  BOOST_TEST_REQUIRE(file.entries().size() == 2U);
  BOOST_TEST((file.entries()[0].type == TensorType::i64));
  std::vector<float> out(2);
  BOOST_REQUIRE(file.copy("values", std::vector<std::uint32_t>{2}, out));
  BOOST_TEST(out == values);
  BOOST_TEST(file.copy("count", {}, std::span(out).first(1))
                 .error()
                 .text.find("'count' is of type I64, the model needs floats") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_no_file_can_hold_is_told_before_it_is_written) {
  const auto refusal = [](const std::vector<TensorView>& tensors) {
    const auto checked = check_tensors(tensors);
    BOOST_TEST_REQUIRE(!checked.has_value());
    BOOST_TEST((checked.error().code == base::ErrorCode::usage));
    return checked.error().text;
  };
  const TensorView none{"none", {0}, {}};
  BOOST_TEST(check_tensors(std::vector{none}).has_value());
  BOOST_TEST(refusal({none, none}) == "tensors: 'none' is the name of two");
  BOOST_TEST(refusal({none, {"\xff", {0}, {}}}) == "tensors: the name of number 1 is not UTF-8");
  BOOST_TEST(
      refusal({{"__metadata__", {0}, {}}}).starts_with("tensors: '__metadata__' is not for"));
  BOOST_TEST(refusal({{std::string(kTensorHeaderBytesMax, 'n'), {0}, {}}})
                 .ends_with("at most 16777216 are accepted: give them shorter names"));

  std::vector<TensorView> many;
  for (std::size_t i = 0; i < kTensorsMax; ++i) many.push_back({std::to_string(i), {0}, {}});
  BOOST_TEST(check_tensors(many).has_value());
  BOOST_TEST(accepted(safetensors_header(many).substr(8), 0));
  many.push_back(none);
  BOOST_TEST(refusal(many) == "tensors: are 65537, at most 65536 are accepted");
}

BOOST_AUTO_TEST_CASE(announced_header_length_is_checked) {
  base::Bytes bytes = file_of("{}", 0);
  for (const std::uint64_t length : {std::uint64_t{3}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    std::memcpy(bytes.data(), &length, 8);
    BOOST_TEST(!parse_safetensors(bytes, "test").has_value());
  }
  BOOST_TEST(!parse_safetensors(std::span(bytes).first(7), "test").has_value());
}

BOOST_AUTO_TEST_SUITE_END()
