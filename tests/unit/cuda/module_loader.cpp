#include "compute/module_loader.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>

#include <boost/test/unit_test.hpp>

#include "compute/program.hpp"
#include "tests/temporary_folder.hpp"

using namespace starling;
using namespace starling::compute;

namespace fs = std::filesystem;

namespace {

fs::path module_file(const char* name) {
  return fs::path(STARLING_TEST_MODULES) / (std::string(name) + ".so");
}

/// Sets the variable that names the module, for one test.
struct NamedModule {
  explicit NamedModule(const fs::path& file) { setenv("STARLING_CUDA_MODULE", file.c_str(), 1); }
  ~NamedModule() { unsetenv("STARLING_CUDA_MODULE"); }
  NamedModule(const NamedModule&) = delete;
  NamedModule& operator=(const NamedModule&) = delete;
};

bool has(const base::Error& error, std::string_view words,
         base::ErrorCode code = base::ErrorCode::device) {
  BOOST_TEST_INFO(error.text);
  return error.code == code && error.text.find(words) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_loader)

BOOST_AUTO_TEST_CASE(a_module_that_is_not_there_is_told_by_the_loaders_words) {
  const auto module = compute::load_module("/nowhere/starling_cuda.so");
  BOOST_REQUIRE(!module);
  BOOST_TEST(has(module.error(), "/nowhere/starling_cuda.so: cannot open shared object file"));
  BOOST_TEST(has(module.error(), "cuDNN 9"));
}

BOOST_AUTO_TEST_CASE(a_file_that_is_no_library_is_refused) {
  const starling::testing::TemporaryFolder folder;
  folder.write("starling_cuda.so", "not a library");
  const auto module = compute::load_module(folder / "starling_cuda.so");
  BOOST_REQUIRE(!module);
  BOOST_TEST(has(module.error(), folder / "starling_cuda.so: file too short"));
}

BOOST_AUTO_TEST_CASE(a_library_without_the_entry_is_refused) {
  const auto module = compute::load_module(module_file("no_module"));
  BOOST_REQUIRE(!module);
  BOOST_TEST(
      has(module.error(), "is not a CUDA module of starling: it lacks starling_cuda_module"));
}

BOOST_AUTO_TEST_CASE(a_module_of_another_build_is_refused_and_both_builds_are_named) {
  const auto module = compute::load_module(module_file("module_of_another_build"));
  BOOST_REQUIRE(!module);
  BOOST_TEST(has(module.error(), "0.0.1 of long ago"));
  BOOST_TEST(has(module.error(), "build both together"));
}

BOOST_AUTO_TEST_CASE(the_number_of_the_gpu_reaches_the_module) {
  const NamedModule named(module_file("module_that_opens_nothing"));
  for (const char* number : {"0", "1", "17"}) {
    const auto device = open_device("cuda:" + std::string(number));
    BOOST_REQUIRE(!device);
    BOOST_TEST(has(device.error(), "there is no GPU " + std::string(number)));
  }
}

BOOST_AUTO_TEST_CASE(auto_takes_the_cpu_and_says_why) {
  const NamedModule named(module_file("module_that_opens_nothing"));
  const auto device = open_device("auto");
  BOOST_REQUIRE(device);
  BOOST_TEST(device->name == "cpu");
  BOOST_TEST(device->about == "there is no GPU 0");
  BOOST_TEST(device->backend != nullptr);
}

BOOST_AUTO_TEST_CASE(words_that_name_no_device_are_refused) {
  for (const char* name :
       {"cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "gpu", "", "cuda:99999999999", "CPU"}) {
    const auto device = open_device(name);
    BOOST_REQUIRE(!device);
    const auto code = base::ErrorCode::run_file;
    BOOST_TEST(has(device.error(), "device '" + std::string(name) + "' is not known", code));
    BOOST_TEST(has(device.error(), "\"auto\"", code));
  }
}

BOOST_AUTO_TEST_CASE(a_gpu_that_is_not_to_be_had_says_what_is_missing) {
  const auto device = open_device("cuda:0");
  if (device) {
    BOOST_TEST(!device->about.empty());
    BOOST_TEST(!open_device("cuda:4096"));
    return;
  }
  BOOST_TEST_INFO(device.error().text);
  const bool told = has(device.error(), "this build has no CUDA module") ||
                    has(device.error(), "there is no NVIDIA driver on this machine") ||
                    has(device.error(), "the NVIDIA driver is too old") ||
                    has(device.error(), "the NVIDIA driver finds no GPU") ||
                    has(device.error(), "compute capability") ||
                    has(device.error(), "cannot be loaded");
  BOOST_TEST(told);
  BOOST_TEST(open_device("auto")->name == "cpu");
}

BOOST_AUTO_TEST_CASE(the_module_is_looked_for_beside_the_program_installed_and_in_the_build) {
  const auto places = compute::module_places("/opt/starling/bin");
  BOOST_REQUIRE(places.size() >= 2U);
  BOOST_TEST(places[0] == "/opt/starling/bin/starling_cuda.so");
  BOOST_TEST(places[1] == "/opt/starling/lib/starling/starling_cuda.so");
  for (const char* folder : {"/b/peers", "/b/tests/conformance", "/b/tests/unit/cuda"}) {
    const auto all = compute::module_places(folder);
    BOOST_TEST((std::ranges::count(all, "/b/src/cuda/starling_cuda.so") == 1));
  }
}

BOOST_AUTO_TEST_SUITE_END()
