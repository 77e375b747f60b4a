#include "train/checkpoint.hpp"

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

  void save(std::uint64_t step, const base::Hash128& of_run, std::uint32_t keep = 2,
            std::span<const base::StepNumber> damaged = {}) {
    std::iota(values.begin(), values.end(), static_cast<float>(step));
    const std::vector<TensorView> model{{"weight", {2, 2}, std::span(values).first(4)},
                                        {"bias", {2}, std::span(values).subspan(4)}};
    const std::vector<TensorView> optimizer{{"momentum", {6}, values}};
    const CheckpointState state{.run = of_run,
                                .step = {step},
                                .optimizer_steps = step + 1,
                                .samples = 64 * step,
                                .progress = 0.1 * static_cast<double>(step),
                                .counters = {{5, 100 * step}, {~std::uint64_t{0}, 7}}};
    const auto saved = save_checkpoint(folder, state, model, optimizer, keep, damaged);
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
  BOOST_TEST(
      (state.counters == std::vector<base::SampleCounter>{{5, 700}, {~std::uint64_t{0}, 7}}));
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

BOOST_AUTO_TEST_CASE(what_a_start_passed_over_as_damaged_is_not_counted_as_kept) {
  save(1, run);
  save(2, run);
  flip(file(2, "model.safetensors"), 100);
  expect_older("model.safetensors: is damaged");
  // The run goes on from step 1; that of step 2 would be the newer one of two.
  const auto damaged = load_latest_checkpoint(folder, run).damaged;
  BOOST_TEST(damaged.size() == 1U);
  save(3, run, 2, damaged);
  BOOST_TEST(names() == (std::vector<std::string>{"step-1", "step-3"}));
}

BOOST_AUTO_TEST_CASE(a_damaged_one_that_is_saved_again_stays) {
  save(1, run);
  save(2, run);
  flip(file(2, "optimizer.safetensors"), 90);
  save(2, run, 2, load_latest_checkpoint(folder, run).damaged);
  BOOST_TEST(names() == (std::vector<std::string>{"step-1", "step-2"}));
  BOOST_TEST(load_latest_checkpoint(folder, run).checkpoint->state.step.value == 2U);
}

BOOST_AUTO_TEST_CASE(what_comes_after_the_step_that_is_saved_is_gone) {
  save(1, run);
  save(2, run);
  save(1, run);
  BOOST_TEST(names() == (std::vector<std::string>{"step-1"}));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_read_stays) {
  save(1, run);
  write(file(1, "state.json"), {});
  for (const std::uint64_t step : {2, 3, 4}) save(step, run);
  BOOST_TEST(names() == (std::vector<std::string>{"step-1", "step-3", "step-4"}));
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

BOOST_AUTO_TEST_CASE(a_state_nested_without_end_is_refused) {
  save(1, run);
  std::string text = R"({"format": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  write(file(1, "state.json"), base::bytes_of(text.data(), text.size()));
  const auto read = read_checkpoint(folder + "/step-1");
  BOOST_REQUIRE(!read.has_value());
  BOOST_TEST(read.error().text.find("state.json: is damaged") != std::string::npos);
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

BOOST_AUTO_TEST_CASE(model_is_read_without_the_optimizer) {
  save(1, run);
  save(2, run);
  flip(file(2, "optimizer.safetensors"), 90);
  const auto whole = load_latest_checkpoint(folder, run);
  BOOST_TEST(whole.checkpoint.value().state.step.value == 1U);
  const auto model = load_latest_checkpoint(folder, run, CheckpointParts::model);
  BOOST_TEST_REQUIRE(model.checkpoint.has_value());
  BOOST_TEST(model.checkpoint->state.step.value == 2U);
  BOOST_TEST(model.checkpoint->model.entries().size() == 2U);
  BOOST_TEST(model.checkpoint->optimizer.entries().empty());
}

BOOST_AUTO_TEST_CASE(runs_with_checkpoints_are_told) {
  BOOST_TEST(checkpointed_runs(folder).value().empty());
  const auto other = base::xxh3_128("other");
  save(1, run);
  save(2, run);
  save(3, other);
  auto expected = std::vector{run, other};
  std::ranges::sort(expected);
  BOOST_TEST((checkpointed_runs(folder).value() == expected));
  flip(file(3, "state.json"), 10);
  BOOST_TEST((checkpointed_runs(folder).value() == std::vector{run}));
}

// Its content may be found later: a peer that took it for empty would then remove it.
BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_listed_is_no_empty_one) {
  write(root / "file", {});
  const auto runs = checkpointed_runs(root / "file");
  BOOST_TEST_REQUIRE(!runs.has_value());
  BOOST_TEST(runs.error().text.find("cannot be listed") != std::string::npos);
  BOOST_TEST(load_latest_checkpoint(root / "file", run).notes.size() == 1U);
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
