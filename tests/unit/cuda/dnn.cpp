// cuDNN's plans without a GPU: its graphs, engines and work space do not need one.
#include "cuda/libraries/dnn.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <dlfcn.h>

#include "cudnn_in_between.hpp"

using namespace starling;
using namespace starling::compute::cuda;
using compute::cuda::testing::Failing;
using compute::cuda::testing::Greedy;
using compute::cuda::testing::OfVersion;
using compute::cuda::testing::questions;

namespace {

/// An H100, as cuDNN 9 describes devices to itself.
constexpr char kH100[] = R"({
  "deviceName": "NVIDIA H100 80GB HBM3", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
  "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "multiProcessorCount": 132,
  "warpSize": 32, "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxSharedMemoryPerBlock": 49152,
  "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
  "totalGlobalMem": 85000000000, "l2CacheSize": 52428800, "smClockRateKHz": 1980000,
  "memClockRateKHz": 2619000})";

Convolution convolution(std::size_t groups, std::size_t stride, std::size_t dilation) {
  Convolution c;
  c.samples = 5;
  c.in_channels = 6;
  c.height = 11;
  c.width = 10;
  c.out_channels = 12;
  c.kernel = 3;
  c.stride = stride;
  c.padding = 2;
  c.dilation = dilation;
  c.groups = groups;
  c.out_height = (c.height + 2 * c.padding - 2 * dilation - 1) / stride + 1;
  c.out_width = (c.width + 2 * c.padding - 2 * dilation - 1) / stride + 1;
  return c;
}

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Square images and windows, padded as in ResNets.
Convolution convolution(std::size_t samples, std::size_t side, std::size_t in, std::size_t out,
                        std::size_t kernel, std::size_t stride) {
  Convolution c;
  c.samples = samples;
  c.in_channels = in;
  c.height = c.width = side;
  c.out_channels = out;
  c.kernel = kernel;
  c.stride = stride;
  c.padding = kernel / 2;
  c.out_height = c.out_width = (side - 1) / stride + 1;
  return c;
}

/// A ResNet's, each once: those of stages of a first block, which may change the sides, and others.
std::vector<Convolution> resnet(std::size_t samples, std::size_t side, bool bottleneck) {
  std::vector<Convolution> all;
  std::size_t in = 64;
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const std::size_t width = std::size_t{64} << stage;
    const std::size_t out = bottleneck ? 4 * width : width;
    for (const std::size_t stride : {stage == 0 ? 1U : 2U, 1U}) {
      if (bottleneck) {
        all.push_back(convolution(samples, side, in, width, 1, 1));
        all.push_back(convolution(samples, side, width, width, 3, stride));
        all.push_back(convolution(samples, side / stride, width, out, 1, 1));
      } else {
        all.push_back(convolution(samples, side, in, width, 3, stride));
      }
      if (in != out) all.push_back(convolution(samples, side, in, out, 1, stride));
      side /= stride;
      in = out;
    }
  }
  return all;
}

/// resnet18 on images of 32x32, 32 a step, and resnet50 on 224x224, 128 a step.
std::vector<Convolution> of_resnets() {
  std::vector<Convolution> all = resnet(32, 32, false);
  all.push_back(convolution(32, 32, 3, 64, 3, 1));
  const std::vector<Convolution> large = resnet(128, 56, true);
  all.insert(all.end(), large.begin(), large.end());
  all.push_back(convolution(128, 224, 3, 64, 7, 2));
  return all;
}

/// cuDNN compiles attention's engines and lets the driver load them. It shall find this driver
/// rather than the machine's, if that has one, which may refuse code for an H100.
struct DriverWithoutGpu {
  DriverWithoutGpu() { BOOST_TEST_REQUIRE(dlopen(STARLING_TEST_DRIVER, RTLD_NOW) != nullptr); }
};

constexpr AttentionSizes kGpt2{
    .samples = 16, .positions = 1024, .heads = 12, .kv_heads = 12, .size = 64};
constexpr AttentionSizes kLlama{
    .samples = 2, .positions = 2048, .heads = 32, .kv_heads = 8, .size = 128};
constexpr AttentionSizes kSmall{
    .samples = 3, .positions = 128, .heads = 4, .kv_heads = 2, .size = 8};
constexpr auto kForward = FusedAttention::Kind::forward;
constexpr auto kBackward = FusedAttention::Kind::backward;

}  // namespace

BOOST_TEST_GLOBAL_FIXTURE(DriverWithoutGpu);

BOOST_AUTO_TEST_SUITE(cuda_dnn)

BOOST_AUTO_TEST_CASE(every_convolution_and_gradient_has_an_engine_on_an_h100) {
  auto dnn = Dnn::create_for(kH100, 9);
  if (!dnn) {  // how devices are described is cuDNN's own affair
    BOOST_TEST_MESSAGE("skipped: " << dnn.error().text);
    return;
  }
  for (Convolution c : {convolution(1, 1, 1), convolution(1, 2, 2), convolution(6, 2, 1)}) {
    for (const auto kind : {Convolution::Kind::forward, Convolution::Kind::source_gradient,
                            Convolution::Kind::weight_gradient}) {
      for (const bool rounded : {false, true}) {
        c.kind = kind;
        c.rounded = c.last = rounded;
        BOOST_TEST_CONTEXT("kind " << static_cast<int>(kind) << ", groups " << c.groups
                                   << (rounded ? ", bfloat16" : "")) {
          const auto prepared = dnn->prepare(c);
          BOOST_TEST_REQUIRE(prepared.has_value());
          BOOST_TEST(prepared->has_value());
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(
    every_convolution_of_resnets_has_an_engine_with_bounded_work_space_on_an_h100) {
  auto dnn = Dnn::create_for(kH100, 9);
  if (!dnn) return;
  std::size_t most = 0;
  for (Convolution c : of_resnets()) {
    for (const auto kind : {Convolution::Kind::forward, Convolution::Kind::source_gradient,
                            Convolution::Kind::weight_gradient}) {
      for (const bool rounded : {false, true}) {
        c.kind = kind;
        c.rounded = c.last = rounded;
        BOOST_TEST_CONTEXT("kind " << static_cast<int>(kind) << ", " << c.height << "x" << c.width
                                   << ", " << c.in_channels << " to " << c.out_channels << ", of "
                                   << c.kernel << (rounded ? ", bfloat16" : "")) {
          const auto prepared = dnn->prepare(c);
          BOOST_TEST_REQUIRE(prepared.has_value());
          BOOST_TEST_REQUIRE(prepared->has_value());
          most = std::max(most, (**prepared).workspace);
        }
      }
    }
  }
  BOOST_TEST_MESSAGE("work space of up to " << most / kMiB << " MiB");
  BOOST_TEST(most < 320 * kMiB);
}

BOOST_AUTO_TEST_CASE(convolutions_of_the_same_sides_share_an_engine_that_is_asked_for_once) {
  auto dnn = Dnn::create_for(kH100, 9);
  if (!dnn) return;
  std::array<float, 3> memory{};
  Convolution c = convolution(1, 1, 1);
  const auto first = dnn->prepare(c);
  const int asked = questions();
  c.x = memory.data();
  const auto second = dnn->prepare(c);
  BOOST_TEST(questions() == asked);
  c.kind = Convolution::Kind::weight_gradient;
  const auto other = dnn->prepare(c);
  BOOST_TEST(questions() > asked);
  BOOST_TEST_REQUIRE((first && *first && second && *second && other && *other));
  BOOST_TEST((**first).plan == (**second).plan);
  BOOST_TEST((**first).plan != (**other).plan);
  BOOST_TEST((**second).convolution.x == memory.data());
  // Nor is it asked again where it has none.
  const Failing failing(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
  BOOST_TEST(!dnn->prepare(convolution(1, 2, 2)).value().has_value());
  const int once = questions();
  BOOST_TEST(!dnn->prepare(convolution(1, 2, 2)).value().has_value());
  BOOST_TEST(questions() == once);
}

BOOST_AUTO_TEST_CASE(images_whose_channels_come_last_are_not_turned) {
  auto dnn = Dnn::create_for(kH100, 9);
  if (!dnn) return;
  for (Convolution c : of_resnets()) {
    if (c.in_channels % 8 != 0) continue;  // is filled up
    c.rounded = c.last = true;
    for (const auto kind : {Convolution::Kind::forward, Convolution::Kind::source_gradient,
                            Convolution::Kind::weight_gradient}) {
      c.kind = kind;
      const auto prepared = dnn->prepare(c);
      BOOST_TEST_REQUIRE((prepared && *prepared));
      // Partial sums of weights' gradients take some, too.
      const std::size_t turned = (c.x_size() + c.y_size()) * sizeof(std::uint16_t);
      BOOST_TEST((**prepared).workspace < std::max(turned, 32 * kMiB));
    }
  }
}

BOOST_AUTO_TEST_CASE(where_all_engines_want_more_work_space_the_smallest_is_taken) {
  auto dnn = Dnn::create_for(kH100, 9);
  if (!dnn) return;
  constexpr std::size_t kMore = 1024 * kMiB;
  const Greedy greedy(kMore);
  const auto prepared = dnn->prepare(convolution(1, 1, 1));
  BOOST_TEST_REQUIRE((prepared && *prepared));
  BOOST_TEST((**prepared).workspace == kMore);  // there are engines that want none
}

BOOST_AUTO_TEST_CASE(where_all_engines_fail_that_is_an_error_and_no_lack_of_engines) {
  auto dnn = Dnn::create_for(kH100, 9);
  if (!dnn) return;
  for (const auto status : {CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED,
                            CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED}) {
    for (const auto type :
         {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR}) {
      const Failing failing(type, status);
      const auto prepared = dnn->prepare(convolution(1, 1, 1));
      BOOST_REQUIRE(!prepared);
      BOOST_TEST(prepared.error().text.find("cuDNN failed") != std::string::npos);
      BOOST_TEST(!dnn->prepare({.kind = kForward, .sizes = kSmall}).has_value());
    }
  }
  BOOST_TEST(dnn->prepare({.kind = kForward, .sizes = kSmall}).has_value());
}

BOOST_AUTO_TEST_CASE(an_engine_that_fails_is_passed_over) {
  for (const auto status :
       {CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED, CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED}) {
    for (const auto type :
         {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR}) {
      auto dnn = Dnn::create_for(kH100, 9);
      if (!dnn) return;
      const Failing failing(type, status, 1);
      const auto prepared = dnn->prepare(convolution(1, 1, 1));
      BOOST_TEST_REQUIRE(prepared.has_value());
      BOOST_TEST(prepared->has_value());
    }
  }
}

BOOST_AUTO_TEST_CASE(a_cudnn_that_is_too_old_is_refused_with_both_versions) {
  const OfVersion loaded(91002);
  const auto dnn = Dnn::create(nullptr, 0);
  BOOST_REQUIRE(!dnn);
  BOOST_TEST(dnn.error().text.find("cuDNN 9.10.2,") != std::string::npos, dnn.error().text);
  BOOST_TEST(dnn.error().text.find("9.11.0 or newer") != std::string::npos, dnn.error().text);
}

BOOST_AUTO_TEST_CASE(an_engine_that_does_not_take_the_sides_is_passed_over) {
  for (const int count : {1, Failing::kAll}) {
    auto dnn = Dnn::create_for(kH100, 9);
    if (!dnn) return;
    const Failing failing(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_STATUS_NOT_SUPPORTED_SHAPE,
                          count);
    const auto prepared = dnn->prepare(convolution(1, 1, 1));
    BOOST_TEST_REQUIRE(prepared.has_value());
    BOOST_TEST(prepared->has_value() == (count == 1));
  }
}

BOOST_AUTO_TEST_CASE(where_all_engines_lack_something_on_the_machine_it_is_named) {
  auto dnn = Dnn::create_for(kH100, 9);
  if (!dnn) return;
  const Failing failing(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
                        CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING);
  const auto prepared = dnn->prepare(convolution(1, 1, 1));
  BOOST_REQUIRE(!prepared);
  BOOST_TEST(prepared.error().text.find("PREREQUISITE_MISSING") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(sides_that_do_not_fit_are_an_error_in_cudnns_words) {
  auto dnn = Dnn::create_for(kH100, 9);
  if (!dnn) return;
  Convolution c = convolution(1, 1, 1);
  c.out_height += 1;
  const auto prepared = dnn->prepare(c);
  BOOST_REQUIRE(!prepared);
  BOOST_TEST((prepared.error().code == base::ErrorCode::device));
  BOOST_TEST(prepared.error().text.find("cuDNN failed") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(attention_of_known_models_has_engines_on_an_h100) {
  auto dnn = Dnn::create_for(kH100, 9);
  if (!dnn) {
    BOOST_TEST_MESSAGE("skipped: " << dnn.error().text);
    return;
  }
  for (const AttentionSizes& sizes : {kGpt2, kLlama, kSmall}) {
    for (const auto kind : {kForward, kBackward}) {
      BOOST_TEST_CONTEXT((kind == kForward ? "forward, " : "backward, ")
                         << sizes.heads << " heads of " << sizes.size) {
        const auto prepared = dnn->prepare({.kind = kind, .sizes = sizes});
        BOOST_TEST_REQUIRE(prepared.has_value());
        BOOST_TEST_REQUIRE(prepared->has_value());
        BOOST_TEST((**prepared).attention.sizes.heads == sizes.heads);
        // Of forward next to none, of backward the gradient of scores, which are bfloat16, a
        // figure a query, and keys and values of each of the heads that share some.
        const std::size_t figures = sizes.row_count() * sizeof(float);
        const std::size_t scores = sizes.score_count() * 2 + 4 * sizes.row_count() * sizes.size;
        const std::size_t most = kind == kForward ? 4096 : scores + figures + 4096;
        BOOST_TEST((**prepared).workspace <= most);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(attentions_of_the_same_sizes_share_an_engine) {
  auto dnn = Dnn::create_for(kH100, 9);
  if (!dnn) return;
  const auto first = dnn->prepare({.kind = kForward, .sizes = kSmall});
  const auto second = dnn->prepare({.kind = kForward, .sizes = kSmall});
  const auto other = dnn->prepare({.kind = kBackward, .sizes = kSmall});
  BOOST_TEST_REQUIRE((first && *first && second && *second && other && *other));
  BOOST_TEST((**first).plan == (**second).plan);
  BOOST_TEST((**first).plan != (**other).plan);
}

BOOST_AUTO_TEST_CASE(attention_of_unaligned_heads_or_one_position_has_no_engine) {
  auto dnn = Dnn::create_for(kH100, 9);
  if (!dnn) return;
  AttentionSizes odd = kSmall;
  odd.size = 12;
  AttentionSizes single = kSmall;
  single.positions = 1;
  for (const auto& [kind, sizes] :
       {std::pair(kForward, odd), std::pair(kBackward, odd), std::pair(kBackward, single)}) {
    const auto prepared = dnn->prepare({.kind = kind, .sizes = sizes});
    BOOST_TEST_REQUIRE(prepared.has_value());
    BOOST_TEST(!prepared->has_value());
  }
}

BOOST_AUTO_TEST_CASE(attention_of_sizes_that_make_no_sense_is_an_error_in_cudnns_words) {
  auto dnn = Dnn::create_for(kH100, 9);
  if (!dnn) return;
  AttentionSizes sizes = kSmall;
  sizes.kv_heads = 3;  // of 4 heads
  for (const auto kind : {kForward, kBackward}) {
    const auto prepared = dnn->prepare({.kind = kind, .sizes = sizes});
    BOOST_REQUIRE(!prepared);
    BOOST_TEST((prepared.error().code == base::ErrorCode::device));
    BOOST_TEST_MESSAGE(prepared.error().text);
    BOOST_TEST(prepared.error().text.find("cuDNN failed") != std::string::npos);
  }
}

BOOST_AUTO_TEST_SUITE_END()
