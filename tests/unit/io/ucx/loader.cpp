#include "io/ucx/loader.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <map>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <dlfcn.h>

#include "harness.hpp"
#include "tests/temporary_folder.hpp"

using namespace starling;
using namespace starling::io;
using namespace starling::io::ucx;
using starling::io::ucx::test::says;
using starling::testing::TemporaryFolder;

namespace {

bool ucx_is_loaded() { return dlopen("libucs.so.0", RTLD_LAZY | RTLD_NOLOAD) != nullptr; }

const bool kLoadedAtStart = ucx_is_loaded();

/// The first bytes of libc's functions that UCX would put its own in the place of.
std::vector<std::array<unsigned char, 16>> code_of_libc() {
  void* const libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  std::vector<std::array<unsigned char, 16>> all;
  for (const char* const name : {"mmap", "munmap", "mremap", "brk", "sbrk", "madvise", "shmat"}) {
    const void* const at = dlsym(libc, name);
    BOOST_REQUIRE(at != nullptr);
    auto& code = all.emplace_back();
    std::memcpy(code.data(), at, code.size());
  }
  return all;
}

std::string why_not(std::string_view host, const std::map<std::string, std::string>& set = {}) {
  return why_not_load(host,
                      [&](const char* name) {
                        const auto found = set.find(name);
                        return found == set.end() ? nullptr : found->second.c_str();
                      })
      .value_or("");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(ucx_loader)

BOOST_AUTO_TEST_CASE(ucx_is_not_there_before_it_is_needed) {
  BOOST_TEST(!kLoadedAtStart);
  constexpr std::array kSignals{SIGHUP, SIGILL, SIGBUS, SIGFPE, SIGSEGV, SIGTERM, SIGABRT};
  const auto handlers = [&] {
    std::vector<void (*)(int)> found;
    for (const int number : kSignals) {
      struct sigaction now {};
      BOOST_REQUIRE(sigaction(number, nullptr, &now) == 0);
      found.push_back(now.sa_handler);
    }
    return found;
  };
  const auto before = handlers();
  const auto code_before = code_of_libc();
  {
    Loop loop = std::move(Loop::create().value());
    bool done = false;
    const Loading loading(loop, [&] { done = true; });
    BOOST_TEST(!done);
    while (!done) loop.run_once();
  }
  const auto module = ucx_module();
  BOOST_TEST((handlers() == before));
  BOOST_REQUIRE_MESSAGE(module.has_value(), (module ? "" : module.error().text));
  BOOST_TEST(ucx_is_loaded());
  BOOST_TEST(((*module)->version >= Version{1, 13, 0}));
  BOOST_TEST(*ucx_module() == *module);
  BOOST_TEST((code_of_libc() == code_before));  // other threads may run it at this moment
}

BOOST_AUTO_TEST_CASE(what_would_abort_the_program_is_told_instead) {
  BOOST_TEST(why_not(std::string(63, 'h')) == "");
  BOOST_TEST(says(why_not(std::string(64, 'h')), "more than 63 characters"));
  BOOST_TEST(says(why_not("host", {{"UCX_LOG_LEVEL", "loud"}}), "UCX_LOG_LEVEL is \"loud\""));
  BOOST_TEST(why_not("host", {{"UCX_LOG_LEVEL", "INFO"}}) == "");
  BOOST_TEST(says(why_not("host", {{"UCX_PROFILE_MODE", "x"}}), "unset it"));
  const TemporaryFolder folder;
  const std::string here = folder.path();
  for (const std::string& good : {std::string("stdout"), std::string("stderr:x"), here + "/new",
                                  "file:" + here + "/%p.log"}) {
    BOOST_TEST(why_not("host", {{"UCX_LOG_FILE", good}}) == "");
  }
  for (const std::string& bad : {here + "/none/log", "file:" + here + "/none/%p", here}) {
    BOOST_TEST(says(why_not("host", {{"UCX_LOG_FILE", bad}}), "cannot be written"), bad);
  }
}

BOOST_AUTO_TEST_CASE(a_file_that_is_no_module_is_refused) {
  const TemporaryFolder folder;
  const auto absent = load_module(folder / "absent.so");
  BOOST_REQUIRE(!absent.has_value());
  BOOST_TEST(says(absent.error().text, "UCX cannot be loaded"));
  const auto other = load_module("libm.so.6");
  BOOST_REQUIRE(!other.has_value());
  BOOST_TEST(says(other.error().text, "is not a UCX module of starling"));
}

BOOST_AUTO_TEST_CASE(the_module_is_looked_for_beside_the_program_first) {
  const auto places = module_places("/opt/starling/bin");
  BOOST_REQUIRE(!places.empty());
  BOOST_TEST(places.front() == "/opt/starling/bin/starling_ucx.so");
  BOOST_TEST(
      (std::ranges::find(places, "/opt/starling/lib/starling/starling_ucx.so") != places.end()));
  const auto library = module_places("/usr/lib");
  BOOST_TEST((std::ranges::find(library, "/usr/lib/starling/starling_ucx.so") != library.end()));
}

BOOST_AUTO_TEST_SUITE_END()
