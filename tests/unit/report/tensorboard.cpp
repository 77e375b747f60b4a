#include "report/tensorboard.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "tests/temporary_folder.hpp"

using namespace starling::report;

namespace {

template <class Value>
Value take(std::string_view& bytes) {
  Value value{};
  BOOST_REQUIRE(bytes.size() >= sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

/// CRC-32C bit by bit, from its polynomial.
std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc ^= static_cast<std::uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82F63B78U : crc >> 1;
  }
  return ~crc;
}

std::uint32_t masked(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

/// A message's fields, numbers and bytes by field number.
struct Message {
  std::map<int, std::uint64_t> numbers;
  std::multimap<int, std::string_view> bytes;
};

std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = take<std::uint8_t>(bytes);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
}

Message message_of(std::string_view bytes) {
  Message message;
  while (!bytes.empty()) {
    const std::uint64_t key = take_varint(bytes);
    const int number = static_cast<int>(key >> 3);
    switch (key & 7) {
      case 0:
        message.numbers[number] = take_varint(bytes);
        break;
      case 1:
        message.numbers[number] = take<std::uint64_t>(bytes);
        break;
      case 2: {
        const std::uint64_t size = take_varint(bytes);
        BOOST_REQUIRE(size <= bytes.size());
        message.bytes.emplace(number, bytes.substr(0, size));
        bytes.remove_prefix(size);
        break;
      }
      case 5:
        message.numbers[number] = take<std::uint32_t>(bytes);
        break;
      default:
        BOOST_FAIL("wire type " << (key & 7));
    }
  }
  return message;
}

/// The events of a file of records, whose checksums must hold.
std::vector<Message> events_of(std::string_view file) {
  std::vector<Message> events;
  while (!file.empty()) {
    const std::string_view head = file.substr(0, 8);
    const auto size = take<std::uint64_t>(file);
    BOOST_TEST(take<std::uint32_t>(file) == masked(head));
    BOOST_REQUIRE(size <= file.size());
    const std::string_view event = file.substr(0, size);
    file.remove_prefix(size);
    BOOST_TEST(take<std::uint32_t>(file) == masked(event));
    events.push_back(message_of(event));
  }
  return events;
}

std::map<std::string, float> scalars_of(const Message& event) {
  std::map<std::string, float> scalars;
  const Message summary = message_of(event.bytes.find(5)->second);
  for (const auto& [number, value] : summary.bytes) {
    const Message scalar = message_of(value);
    float number_of_it = 0;
    const auto bits = static_cast<std::uint32_t>(scalar.numbers.at(2));
    std::memcpy(&number_of_it, &bits, sizeof bits);
    scalars[std::string(scalar.bytes.find(1)->second)] = number_of_it;
  }
  return scalars;
}

double double_of(std::uint64_t bits) {
  double value = 0;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tensorboard)

BOOST_AUTO_TEST_CASE(the_checksum_is_that_of_rfc_3720) {
  BOOST_TEST(crc32c(std::string(32, '\0')) == 0x8A9136AAU);
  BOOST_TEST(crc32c(std::string(32, '\xFF')) == 0x62A8AB43U);
}

BOOST_AUTO_TEST_CASE(rows_are_events_with_their_step_time_and_figures) {
  const starling::testing::TemporaryFolder folder;
  auto file = TensorBoardFile::open(folder.path(), "peer-1", 300, 1'700'000'000.25);
  BOOST_REQUIRE(file);
  const MetricsRow row{.steps = 302,
                       .loss = 0.25,
                       .train_loss = 0.5,
                       .accuracy = 0.875,
                       .lr = 0.0625,
                       .drift = 0.125,
                       .links = 3,
                       .bytes_sent = 1'000'000,
                       .bytes_received = 2'000'000,
                       .exchanges = 6};
  BOOST_TEST(file->append(row, 1'700'000'002.5).has_value());
  MetricsRow plain = row;
  plain.loss.reset();
  plain.accuracy.reset();
  plain.steps = 100'000;
  BOOST_TEST(file->append(plain, 1'700'000'004).has_value());

  std::string name;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() + "/tb")) {
    name = entry.path().filename();
  }
  BOOST_TEST(name.starts_with("events.out.tfevents.1700000000.peer-1."), name);
  const std::string text = folder.text("tb/" + name);
  const auto events = events_of(text);
  BOOST_REQUIRE(events.size() == 4U);
  BOOST_TEST(events[0].bytes.find(3)->second == "brain.Event:2");
  BOOST_TEST(events[1].numbers.at(2) == 300U);
  BOOST_TEST(message_of(events[1].bytes.find(7)->second).numbers.at(1) == 1U);  // START
  BOOST_TEST(events[2].numbers.at(2) == 302U);
  BOOST_TEST(double_of(events[2].numbers.at(1)) == 1'700'000'002.5);
  const std::map<std::string, float> wanted{
      {"train/loss", 0.5F},    {"train/learning rate", 0.0625F},
      {"test/loss", 0.25F},    {"test/accuracy", 0.875F},
      {"swarm/drift", 0.125F}, {"swarm/links", 3},
      {"swarm/exchanges", 6},  {"bytes/sent", 1e6F},
      {"bytes/received", 2e6F}};
  BOOST_TEST((scalars_of(events[2]) == wanted));
  BOOST_TEST(events[3].numbers.at(2) == 100'000U);
  BOOST_TEST(!scalars_of(events[3]).contains("test/loss"));
  BOOST_TEST(scalars_of(events[3]).size() == wanted.size() - 2);
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_written_is_an_error) {
  const starling::testing::TemporaryFolder folder;
  std::ofstream(folder.path() + "/tb") << "a file";
  const auto file = TensorBoardFile::open(folder.path(), "peer-1", 0, 0);
  BOOST_REQUIRE(!file);
  BOOST_TEST(file.error().text.find("/tb") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
