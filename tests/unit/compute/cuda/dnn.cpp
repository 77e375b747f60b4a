// What cuDNN plans for a GPU that is not there: its graphs, engines and work space need none.
#include "compute/cuda/dnn.hpp"

#include <string>

#include <boost/test/unit_test.hpp>

using namespace starling;
using namespace starling::compute::cuda;

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

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_dnn)

BOOST_AUTO_TEST_CASE(every_convolution_and_gradient_has_an_engine_on_an_h100) {
  const auto dnn = Dnn::create_for(kH100);
  if (!dnn) {  // how devices are described is cuDNN's own affair
    BOOST_TEST_MESSAGE("skipped: " << dnn.error().text);
    return;
  }
  for (Convolution c : {convolution(1, 1, 1), convolution(1, 2, 2), convolution(6, 2, 1)}) {
    for (const auto kind : {Convolution::Kind::forward, Convolution::Kind::source_gradient,
                            Convolution::Kind::weight_gradient}) {
      for (const bool rounded : {false, true}) {
        c.kind = kind;
        c.rounded = rounded;
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

BOOST_AUTO_TEST_CASE(sides_that_do_not_fit_are_an_error_in_cudnns_words) {
  const auto dnn = Dnn::create_for(kH100);
  if (!dnn) return;
  Convolution c = convolution(1, 1, 1);
  c.out_height += 1;
  const auto prepared = dnn->prepare(c);
  BOOST_REQUIRE(!prepared);
  BOOST_TEST((prepared.error().code == base::ErrorCode::device));
  BOOST_TEST(prepared.error().text.find("cuDNN failed") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
