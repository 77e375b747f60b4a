#include "train/checkpoint.hpp"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include <boost/test/unit_test.hpp>

#include "base/file.hpp"
#include "tests/temporary_folder.hpp"

using namespace starling;
using namespace starling::train;

namespace {

/// A folder with checkpoints of a small model.
struct Fixture {
  Fixture() : folder(root / "checkpoints"), values(6) {}

  void save(std::uint64_t step, const base::Hash128& of_run, std::uint32_t keep = 2) {
    std::iota(values.begin(), values.end(), static_cast<float>(step));
    const std::vector<TensorView> model{{"weight", {2, 2}, std::span(values).first(4)},
                                        {"bias", {2}, std::span(values).subspan(4)}};
    const std::vector<TensorView> optimizer{{"momentum", {6}, values}};
    const CheckpointState state{.run = of_run,
                                .step = {step},
                                .optimizer_steps = step + 1,
                                .samples = 64 * step,
                                .progress = 0.1 * static_cast<double>(step)};
    const auto saved = save_checkpoint(folder, state, model, optimizer, keep);
    BOOST_REQUIRE_MESSAGE(saved.has_value(), (saved ? "" : saved.error().text));
  }

  std::string file(std::uint64_t step, const std::string& name) const {
    return folder + "/step-" + std::to_string(step) + "/" + name;
  }

  void flip(const std::string& path, std::size_t at) const {
    auto bytes = base::read_file(path, 1 << 20).value();
    bytes.at(at) ^= std::byte{4};
    write(path, bytes);
  }

  static void write(const std::string& path, base::ByteView bytes) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  }

  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      found.push_back(entry.path().filename().string());
    }
    std::ranges::sort(found);
    return found;
  }

  /// Loads, expecting step 1 with a note on step 2 that says this.
  void expect_older(const std::string& note) const {
    const auto loaded = load_latest_checkpoint(folder, run);
    BOOST_REQUIRE(loaded.checkpoint.has_value());
    BOOST_TEST(loaded.checkpoint->state.step.value == 1U);
    BOOST_REQUIRE(loaded.notes.size() == 1U);
    BOOST_TEST_CONTEXT(loaded.notes[0]) {
      BOOST_TEST(loaded.notes[0].find("step-2") != std::string::npos);
      BOOST_TEST(loaded.notes[0].find(note) != std::string::npos);
    }
  }

  testing::TemporaryFolder root;
  std::string folder;
  std::vector<float> values;
  const base::Hash128 run = base::xxh3_128("run");
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(checkpoint, Fixture)

BOOST_AUTO_TEST_CASE(saved_state_and_tensors_come_back) {
  save(7, run);
  const auto loaded = load_latest_checkpoint(folder, run);
  BOOST_REQUIRE(loaded.checkpoint.has_value());
  BOOST_TEST(loaded.notes.empty());
  const CheckpointState& state = loaded.checkpoint->state;
  BOOST_TEST((state.run == run));
  BOOST_TEST(state.step.value == 7U);
  BOOST_TEST(state.samples == 448U);
  BOOST_TEST(state.optimizer_steps == 8U);
  BOOST_TEST(state.progress == 0.1 * 7);
  std::vector<float> out(2);
  BOOST_REQUIRE(loaded.checkpoint->model.copy("bias", std::vector<std::uint32_t>{2}, out));
  BOOST_TEST(out == (std::vector<float>{11, 12}));
  std::vector<float> momentum(6);
  BOOST_REQUIRE(
      loaded.checkpoint->optimizer.copy("momentum", std::vector<std::uint32_t>{6}, momentum));
  BOOST_TEST(momentum == values);
}

BOOST_AUTO_TEST_CASE(only_the_newest_are_kept) {
  for (const std::uint64_t step : {8, 9, 10, 11}) save(step, run);
  BOOST_TEST(names() == (std::vector<std::string>{"step-10", "step-11"}));
  save(12, run, 1);
  BOOST_TEST(names() == (std::vector<std::string>{"step-12"}));
}

BOOST_AUTO_TEST_CASE(same_step_is_replaced) {
  save(3, run);
  save(3, run);
  BOOST_TEST(names() == (std::vector<std::string>{"step-3"}));
  BOOST_TEST(load_latest_checkpoint(folder, run).checkpoint.has_value());
}

BOOST_AUTO_TEST_CASE(other_runs_are_left_alone_and_passed_over) {
  const auto other = base::xxh3_128("other");
  save(500, other);
  for (const std::uint64_t step : {1, 2, 3}) save(step, run);
  BOOST_TEST(names() == (std::vector<std::string>{"step-2", "step-3", "step-500"}));
  const auto loaded = load_latest_checkpoint(folder, run);
  BOOST_REQUIRE(loaded.checkpoint.has_value());
  BOOST_TEST(loaded.checkpoint->state.step.value == 3U);
  BOOST_REQUIRE(loaded.notes.size() == 1U);
  BOOST_TEST(loaded.notes[0].find("belongs to run " + other.hex()) != std::string::npos);
}

BOOST_AUTO_TEST_CASE(flipped_bit_in_any_file_makes_the_older_one_used) {
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    save(1, run);
    save(2, run);
    const auto size = std::filesystem::file_size(file(2, name));
    for (std::size_t at = 0; at < size; at += 1 + size / 40) {
      BOOST_TEST_CONTEXT(name << " byte " << at) {
        flip(file(2, name), at);
        const auto loaded = load_latest_checkpoint(folder, run);
        BOOST_REQUIRE(loaded.checkpoint.has_value());
        BOOST_TEST(loaded.checkpoint->state.step.value == 1U);
        BOOST_TEST(loaded.notes.size() == 1U);
        flip(file(2, name), at);
      }
    }
    BOOST_TEST(load_latest_checkpoint(folder, run).checkpoint->state.step.value == 2U);
  }
}

BOOST_AUTO_TEST_CASE(torn_checkpoint_is_refused_with_the_reason) {
  save(1, run);
  save(2, run);
  flip(file(2, "model.safetensors"), 100);
  expect_older("model.safetensors: is damaged: its hash");
  save(2, run);
  std::filesystem::resize_file(file(2, "optimizer.safetensors"), 20);
  expect_older("optimizer.safetensors: is damaged");
  save(2, run);
  std::filesystem::resize_file(file(2, "state.json"), 20);
  expect_older("state.json: is damaged");
  save(2, run);
  std::filesystem::remove(file(2, "model.safetensors"));
  expect_older("model.safetensors: cannot be opened");
  save(2, run);
  std::filesystem::remove(file(2, "state.json"));
  expect_older("state.json: cannot be opened");
}

BOOST_AUTO_TEST_CASE(crash_while_writing_leaves_the_older_one) {
  save(1, run);
  std::filesystem::create_directories(folder + "/.writing");
  write(folder + "/.writing/model.safetensors", {});
  BOOST_TEST(load_latest_checkpoint(folder, run).checkpoint->state.step.value == 1U);
  save(2, run);
  BOOST_TEST(names() == (std::vector<std::string>{"step-1", "step-2"}));
}

BOOST_AUTO_TEST_CASE(no_folder_holds_no_checkpoint) {
  const auto loaded = load_latest_checkpoint(root / "none", run);
  BOOST_TEST(!loaded.checkpoint.has_value());
  BOOST_TEST(loaded.notes.empty());
}

BOOST_AUTO_TEST_CASE(folder_that_cannot_be_made_is_an_error) {
  write(root / "file", {});
  const auto saved = save_checkpoint(root / "file/x", {.run = run}, {}, {}, 2);
  BOOST_REQUIRE(!saved.has_value());
  BOOST_TEST(saved.error().text.find("cannot be created") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(tensor_of_another_shape_is_not_copied) {
  save(1, run);
  const auto model = read_checkpoint(folder + "/step-1").value().model;
  std::vector<float> out(4);
  BOOST_TEST(model.copy("weight", std::vector<std::uint32_t>{4}, out)
                 .error()
                 .text.find("has shape [2, 2], the model needs [4]") != std::string::npos);
  BOOST_TEST(model.copy("wieght", std::vector<std::uint32_t>{2, 2}, out)
                 .error()
                 .text.find("has no tensor 'wieght'") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(safetensors)

namespace {

base::Buffer file_of(const std::string& header, std::size_t data_bytes) {
  base::Buffer bytes(8 + header.size() + data_bytes);
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
      {"{" + tensor("a", "4", "0,8", "F16") + "}", 8},                             // type
      {"{" + tensor("a", "-2", "0,8") + "}", 8},                                   // negative
      {"{" + tensor("a", "2.0", "0,8") + "}", 8},                                  // not an integer
      {"{" + tensor("a", "4294967296,4294967296", "0,0") + "}", 0},                // overflow
      {"{" + tensor("a", "2", "0,18446744073709551615") + "}", 8},  // offset overflow
      {"{" + tensor("a", "1,1,1,1,1,1,1,1,2", "0,8") + "}", 8},     // rank
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8},             // key missing
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

BOOST_AUTO_TEST_CASE(announced_header_length_is_checked) {
  base::Buffer bytes = file_of("{}", 0);
  for (const std::uint64_t length : {std::uint64_t{3}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    std::memcpy(bytes.data(), &length, 8);
    BOOST_TEST(!parse_safetensors(bytes, "test").has_value());
  }
  BOOST_TEST(!parse_safetensors(std::span(bytes).first(7), "test").has_value());
}

BOOST_AUTO_TEST_SUITE_END()
