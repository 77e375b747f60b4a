// `starling check`: the needs of a run file, before anything is started.
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "harness.hpp"
#include "train/safetensors.hpp"

namespace starling::integration {
namespace {

Ended check(const std::string& run_file, const Arguments& more) {
  const testing::TemporaryFolder folder;
  const std::string folder_of_runs = std::filesystem::path(mlp_run_file()).parent_path();
  Arguments arguments{"check", folder_of_runs + "/" + run_file};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run(folder, arguments);
}

BOOST_AUTO_TEST_CASE(layers_memory_and_bytes_are_told_without_the_data) {
  const Ended ended = check("resnet20.toml", {"--set", "data.path=/no/such/folder"});
  BOOST_TEST_CONTEXT(ended.out << ended.err) {
    BOOST_TEST(ended.code.value_or(-1) == 3);
    BOOST_TEST(has(ended.out, "layer3.0.downsample.0  conv2d"));
    BOOST_TEST(has(ended.out, "parameters   272,186 (1.09 MB)"));
    BOOST_TEST(has(ended.out, "buffers      1,568 (6.27 kB), sent every 20 exchanges"));
    BOOST_TEST(has(ended.out, "MFLOP a sample of an evaluation"));
    BOOST_TEST(has(ended.out, "a peer\n"));
    BOOST_TEST(has(ended.out, "at a density of 0.005"));
    BOOST_TEST(has(ended.out, "keyframe     283 kB"));
    BOOST_TEST(has(ended.err, "/no/such/folder"));
  }
}

BOOST_AUTO_TEST_CASE(keys_are_printed_without_a_run_file) {
  const testing::TemporaryFolder folder;
  const Ended ended = run(folder, {"check", "--keys"});
  BOOST_TEST(ended.code.value_or(-1) == 0);
  BOOST_TEST(ended.out.starts_with("## [run]\n"));
  BOOST_TEST(has(ended.out, "| `upload_limit` |"));
  BOOST_TEST(ended.err == "");
  BOOST_TEST(run(folder, {"check"}).code.value_or(-1) == 2);
}

BOOST_AUTO_TEST_CASE(text_needs_no_files_either) {
  const Ended ended = check("kjv.toml", {"--json", "--set", "data.path=/no/such/file"});
  BOOST_TEST(ended.code.value_or(-1) == 3);
  const auto json = nlohmann::json::parse(ended.out, nullptr, false);
  BOOST_REQUIRE_MESSAGE(!json.is_discarded(), ended.out + ended.err);
  BOOST_TEST(json["parameters"] == 836'736);
  BOOST_TEST(json["tensors"][0]["name"] == "model.embed_tokens.weight");
  BOOST_TEST((json["tensors"][0]["shape"] == nlohmann::json{256, 128}));
  BOOST_TEST(json["target_samples"].is_null());
  BOOST_TEST(json["memory_bytes"]["total"] > json["memory_bytes"]["mirrors"]);
}

BOOST_AUTO_TEST_CASE(what_the_optimizer_holds_is_no_activation) {
  const auto memory_with = [](const std::vector<std::string>& keys) {
    Arguments arguments{"--json", "--set", "data.path=/no/such/folder"};
    for (const std::string& key : keys) arguments.insert(arguments.end(), {"--set", key});
    const Ended ended = check("fashion-mlp.toml", arguments);
    const auto json = nlohmann::json::parse(ended.out, nullptr, false);
    BOOST_REQUIRE_MESSAGE(!json.is_discarded(), ended.out + ended.err);
    const auto bytes = json["memory_bytes"];
    return std::array{bytes["activations"].get<std::uint64_t>(),
                      bytes["training"].get<std::uint64_t>(),
                      json["parameters"].get<std::uint64_t>() * sizeof(float)};
  };
  const auto [activations, training, copy] =
      memory_with({"train.optimizer=sgd", "train.momentum=0.9"});
  BOOST_TEST(training == 2 * copy);
  BOOST_TEST((memory_with({"train.optimizer=sgd", "train.momentum=0"}) ==
              std::array{activations, 2 * copy, copy}));
  const auto muon = memory_with({"train.optimizer=muon"});
  BOOST_TEST(muon[0] == activations);
  BOOST_TEST(muon[1] > training);
  const auto pieces = memory_with({"train.optimizer=sgd", "train.accumulate=4"});
  BOOST_TEST(pieces[0] < activations);
  BOOST_TEST(pieces[1] == 3 * copy);
}

BOOST_AUTO_TEST_CASE(deltas_and_a_ring_are_counted) {
  using Copies = std::array<std::uint64_t, 2>;  // of the parameters: deltas, ring
  const auto memory_in = [](const std::string& mode, const std::string& shape = "swarm.peers=4") {
    const Ended ended =
        check("fashion-mlp.toml",
              {"--json", "--set", "data.path=/no/such/folder", "--set", "train.device=cpu", "--set",
               "swarm.degree=4", "--set", shape, "--set", "exchange.mode=" + mode});
    const auto json = nlohmann::json::parse(ended.out, nullptr, false);
    BOOST_REQUIRE_MESSAGE(!json.is_discarded(), ended.out + ended.err);
    const auto bytes = json["memory_bytes"];
    const auto copy = json["parameters"].get<std::uint64_t>() * sizeof(float);
    std::uint64_t sum = 0;
    for (const auto& part : {"initial", "replica", "mirrors", "deltas", "ring", "training",
                             "activations", "saving", "data"}) {
      sum += bytes[part].get<std::uint64_t>();
    }
    BOOST_TEST(bytes["total"] == sum);
    return Copies{bytes["deltas"].get<std::uint64_t>() / copy,
                  bytes["ring"].get<std::uint64_t>() / copy};
  };
  // An index and a value for each element: found and chosen ones, and two deltas per link.
  BOOST_TEST((memory_in("dense") == Copies{20, 0}));
  BOOST_TEST((memory_in("none") == Copies{0, 0}));
  // All except the center of a star have one link.
  BOOST_TEST((memory_in("dense", "swarm.hub=peer-1") == Copies{8, 0}));
  // Gradients to average, the last means, and early messages.
  BOOST_TEST((memory_in("allreduce") == Copies{0, 3}));
  BOOST_TEST((memory_in("local") == Copies{0, 3}));
}

BOOST_AUTO_TEST_CASE(a_wrong_shape_names_the_layer_and_both_shapes) {
  const Ended ended =
      check("resnet20.toml",
            {"--set", "data.path=/no/such/folder", "--set", "model.preset=none", "--set",
             "model.layers=[{ type = 'residual', name = 'one', layers = [{ type = 'conv2d', "
             "out = 4, kernel = 3 }] }, { type = 'linear', out = 10 }]"});
  BOOST_TEST(ended.code.value_or(-1) == 3);
  BOOST_TEST(has(ended.err,
                 "layers[0] 'one' (residual): the two branches give 4x26x26 and "
                 "1x28x28"));
}

BOOST_AUTO_TEST_CASE(weights_that_no_run_can_start_from_are_told) {
  const testing::TemporaryFolder folder;
  const std::string file = folder / "init.safetensors";
  std::vector<float> weight(7840);
  weight[5] = 1e31F;
  const std::vector<float> bias(10);
  const std::vector<train::TensorView> tensors{{"layers.0.weight", {10, 784}, weight},
                                               {"layers.0.bias", {10}, bias}};
  const std::string header = train::safetensors_header(tensors);
  BOOST_REQUIRE(base::replace_file(file, train::safetensors_parts(header, tensors)));
  const Ended ended = check("fashion-mlp.toml", {"--set", "data.path=/no/such/folder", "--set",
                                                 "model.layers=[{ type = 'linear', out = 10 }]",
                                                 "--set", "model.init=" + file});
  BOOST_TEST(ended.code.value_or(-1) == 3);
  BOOST_TEST(has(ended.err, "init.safetensors: tensor 'layers.0.weight' has 1e+31"), ended.err);
}

BOOST_AUTO_TEST_CASE(addresses_that_cannot_be_dialed_are_refused) {
  for (const auto& [address, why] :
       {std::pair("foo", "the port is missing"), std::pair("127.0.0.1:0", "port 0"),
        std::pair("http://x:80", "it is a URL")}) {
    const Ended ended =
        check("fashion-mlp.toml", {"--set", "swarm.join=[\"" + std::string(address) + "\"]"});
    BOOST_TEST_CONTEXT(ended.err) {
      BOOST_TEST(ended.code.value_or(-1) == 3);
      BOOST_TEST(has(ended.err, std::string("swarm.join: \"") + address + "\" is not an address"));
      BOOST_TEST(has(ended.err, why));
    }
  }
}

/// An IDX file (big-endian sizes).
void write_idx(const std::string& path, const std::vector<unsigned char>& sizes,
               const std::vector<unsigned char>& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << std::string("\0\0\x08", 3) << static_cast<char>(sizes.size());
  for (const unsigned char size : sizes) file << std::string(3, '\0') << static_cast<char>(size);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

BOOST_AUTO_TEST_CASE(a_label_that_is_damaged_is_named) {
  const testing::TemporaryFolder folder;
  std::vector<unsigned char> labels(100);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<unsigned char>(i % 10);
  const std::vector<unsigned char> pixels(400, 7);
  for (const std::string part : {"train", "t10k"}) {
    if (part == "t10k") labels[42] = 255;
    write_idx(folder / (part + "-images-idx3-ubyte"), {100, 2, 2}, pixels);
    write_idx(folder / (part + "-labels-idx1-ubyte"), {100}, labels);
  }
  const Ended ended =
      check("fashion-mlp.toml", {"--set", "data.source=idx", "--set", "data.path=" + folder.path(),
                                 "--set", "model.input=[4]"});
  BOOST_TEST(ended.code.value_or(-1) == 3);
  BOOST_TEST(has(ended.err, "the data has 256 classes"), ended.err);
  BOOST_TEST(has(ended.err, "1 sample has the highest label, 255, and the next is 9"), ended.err);
}

BOOST_AUTO_TEST_CASE(what_is_no_utf8_is_refused_and_spoils_no_message) {
  const Ended ended = check("fashion-mlp.toml", {"--json", "--set", "train.device=\xff"});
  BOOST_TEST(ended.code.value_or(-1) == 3, ended.err);
  BOOST_TEST(ended.out.empty(), ended.out);
  BOOST_TEST(has(ended.err, "train.device=?: train.device: is not valid UTF-8"), ended.err);
}

BOOST_AUTO_TEST_CASE(output_that_cannot_be_written_is_an_error) {
  const testing::TemporaryFolder folder;
  // Its standard output is open for reading only.
  Process process("/bin/sh",
                  {"-c", "exec \"$0\" check \"$1\" 1</dev/null", program(), mlp_run_file()},
                  folder / "command");
  BOOST_TEST(process.wait().value_or(-1) == 1);
  BOOST_TEST(has(process.err(), "could not be written"), process.err());
}

BOOST_AUTO_TEST_CASE(what_cannot_fit_is_refused_before_it_is_tried) {
  const Ended ended = check("resnet20.toml", {"--set", "data.path=/no/such/folder", "--set",
                                              "train.batch=65536", "--set", "model.width=512"});
  BOOST_TEST(ended.code.value_or(-1) == 3);
  BOOST_TEST_CONTEXT(ended.err) {
    BOOST_TEST(has(ended.err, "resnet20.toml: a peer needs at least "));
    BOOST_TEST(has(ended.err, "are to be had on this machine: lower train.batch or the model"));
  }
}

}  // namespace
}  // namespace starling::integration
