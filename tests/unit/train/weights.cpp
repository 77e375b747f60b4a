#include "train/weights.hpp"

#include <cstdint>
#include <limits>
#include <numeric>

#include <boost/test/unit_test.hpp>

#include "base/file.hpp"
#include "tests/temporary_folder.hpp"

using namespace starling;
using namespace starling::train;

namespace {

/// A graph's tensors alone: a linear layer and a batch norm.
compute::Graph graph() {
  compute::Graph made;
  made.tensors = {
      {.name = "fc.weight", .shape = {2, 3}, .offset = 0, .size = 6},
      {.name = "fc.bias", .shape = {2}, .offset = 6, .size = 2},
      {.name = "bn.weight", .shape = {2}, .offset = 8, .size = 2},
  };
  made.parameter_count = 10;
  made.buffers = {
      {.name = "bn.running_mean", .shape = {2}, .offset = 0, .size = 2},
      {.name = "bn.running_var",
       .kind = compute::TensorKind::running_variance,
       .shape = {2},
       .offset = 2,
       .size = 2},
  };
  made.buffer_count = 4;
  return made;
}

Weights weights() {
  Weights made{std::vector<float>(10), std::vector<float>(4)};
  std::iota(made.parameters.begin(), made.parameters.end(), 1.0F);
  std::iota(made.buffers.begin(), made.buffers.end(), 100.0F);
  return made;
}

TensorFile file_of(const std::vector<TensorView>& tensors) {
  const std::string header = safetensors_header(tensors);
  base::Bytes bytes;
  for (const base::ByteView part : safetensors_parts(header, tensors)) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return TensorFile::parse(std::move(bytes), "test.safetensors").value();
}

std::vector<TensorView> all_views(const Weights& of) {
  std::vector<TensorView> views = tensor_views(graph().tensors, of.parameters);
  const std::vector<TensorView> buffers = tensor_views(graph().buffers, of.buffers);
  views.insert(views.end(), buffers.begin(), buffers.end());
  return views;
}

/// The message about a file with these tensors.
std::string refusal(const std::vector<TensorView>& tensors) {
  const auto read = read_weights(file_of(tensors), graph());
  BOOST_TEST_REQUIRE(!read.has_value());
  BOOST_TEST((read.error().code == base::ErrorCode::data));
  return read.error().text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(weights_of_files)

BOOST_AUTO_TEST_CASE(weights_come_back_in_any_order_of_the_file) {
  const Weights own = weights();
  std::vector<TensorView> views = all_views(own);
  BOOST_TEST((read_weights(file_of(views), graph()).value() == own));
  std::ranges::reverse(views);
  BOOST_TEST((read_weights(file_of(views), graph()).value() == own));
}

BOOST_AUTO_TEST_CASE(counters_of_batch_norms_are_passed_over) {
  const Weights own = weights();
  const std::vector<std::int64_t> count{7};
  std::vector<TensorView> views = all_views(own);
  views.push_back({"bn.num_batches_tracked", {}, count});
  BOOST_TEST((read_weights(file_of(views), graph()).value() == own));
  views.back().name = "fc.num_batches_tracked";
  BOOST_TEST(refusal(views) ==
             "test.safetensors: has tensors that the model lacks: 'fc.num_batches_tracked'");
}

BOOST_AUTO_TEST_CASE(missing_and_extra_tensors_are_named) {
  const Weights own = weights();
  std::vector<TensorView> views = all_views(own);
  views[1].name = "fc.bais";
  views.pop_back();
  BOOST_TEST(refusal(views) ==
             "test.safetensors: lacks tensors of the model: 'fc.bias', 'bn.running_var'; has "
             "tensors that the model lacks: 'fc.bais'");
}

BOOST_AUTO_TEST_CASE(long_lists_of_tensors_are_cut) {
  const Weights own = weights();
  std::vector<TensorView> views = all_views(own);
  for (int i = 0; i < 11; ++i) views.push_back({"x" + std::to_string(i), {0}, {}});
  BOOST_TEST(refusal(views).ends_with("'x5', 'x6' and 3 more"), refusal(views));
}

BOOST_AUTO_TEST_CASE(another_shape_is_named_with_both) {
  const Weights own = weights();
  std::vector<TensorView> views = all_views(own);
  views[0].shape = {3, 2};
  BOOST_TEST(refusal(views) ==
             "test.safetensors: tensor 'fc.weight' has shape [3, 2], the model needs [2, 3]");
}

BOOST_AUTO_TEST_CASE(a_value_that_is_not_finite_is_refused) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    Weights own = weights();
    own.parameters[7] = bad;
    BOOST_TEST(refusal(all_views(own)) ==
               "test.safetensors: tensor 'fc.bias' has a value that is not finite");
    own = weights();
    own.buffers[3] = bad;
    BOOST_TEST(refusal(all_views(own)) ==
               "test.safetensors: tensor 'bn.running_var' has a value that is not finite");
  }
}

BOOST_AUTO_TEST_CASE(a_value_that_no_replica_takes_is_refused) {
  Weights own = weights();
  own.parameters[7] = -1e31F;
  BOOST_TEST(refusal(all_views(own)) ==
             "test.safetensors: tensor 'fc.bias' has -1e+31: it must be from -1e+30 to 1e+30");
  own.parameters[7] = -1e30F;
  BOOST_TEST((read_weights(file_of(all_views(own)), graph()).value() == own));
}

BOOST_AUTO_TEST_CASE(a_running_variance_below_zero_is_refused) {
  Weights own = weights();
  own.buffers[1] = -0.5F;
  own.buffers[3] = 0;
  BOOST_TEST((read_weights(file_of(all_views(own)), graph()).value() == own));
  own.buffers[3] = -0.5F;
  BOOST_TEST(refusal(all_views(own)) ==
             "test.safetensors: tensor 'bn.running_var' has -0.5: it must be from 0 to 1e+30");
}

BOOST_AUTO_TEST_CASE(a_run_starts_from_its_seed_or_from_a_file) {
  const model::Model model{graph()};
  const InitialWeights drawn = initial_weights(model, 7, "").value();
  BOOST_TEST((drawn.weights.parameters == model.initial_parameters(7)));
  BOOST_TEST((drawn.weights.buffers == model.initial_buffers()));
  BOOST_TEST(!drawn.file.has_value());

  const testing::TemporaryFolder folder;
  const std::string path = folder / "init.safetensors";
  const Weights own = weights();
  const std::vector<TensorView> views = all_views(own);
  const std::string header = safetensors_header(views);
  BOOST_REQUIRE(base::replace_file(path, safetensors_parts(header, views)));
  const InitialWeights read = initial_weights(model, 7, path).value();
  BOOST_TEST((read.weights == own));
  const base::Bytes bytes = base::read_file(path, 1 << 20).value();
  BOOST_TEST((read.file == base::xxh3_128(base::ByteView(bytes))));
}

BOOST_AUTO_TEST_CASE(a_file_to_start_from_that_cannot_be_used_is_named) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "init.safetensors";
  const model::Model model{graph()};
  const std::string missing = initial_weights(model, 7, path).error().text;
  BOOST_TEST(missing.starts_with("model.init: " + path), missing);
  BOOST_TEST(missing.find("every peer of the run needs this file") != std::string::npos, missing);
  BOOST_REQUIRE(base::replace_file(path, ""));
  const std::string empty = initial_weights(model, 7, path).error().text;
  BOOST_TEST(empty == "model.init: " + path + ": is truncated: 0 bytes");
}

BOOST_AUTO_TEST_CASE(buffers_are_known_by_their_names) {
  for (const compute::Tensor& tensor : graph().buffers) BOOST_TEST(is_buffer_name(tensor.name));
  for (const compute::Tensor& tensor : graph().tensors) BOOST_TEST(!is_buffer_name(tensor.name));
}

BOOST_AUTO_TEST_CASE(a_tensor_without_a_name_is_none_of_the_models) {
  const Weights own = weights();
  std::vector<TensorView> views = all_views(own);
  const std::vector<float> value(1);
  views.push_back({"", {1}, value});
  BOOST_TEST(refusal(views).find("has tensors that the model lacks: ''") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
