#include "io/ucx/machine_proof.hpp"

#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>

#include <boost/test/unit_test.hpp>
#include <sys/stat.h>

#include "tests/temporary_folder.hpp"

using namespace starling;
using namespace starling::io::ucx;
using starling::testing::TemporaryFolder;

namespace fs = std::filesystem;

namespace {

base::ByteView bytes(std::string_view text) { return base::bytes_of(text.data(), text.size()); }

base::ByteView view(const MachineProof::Bytes& proof) { return std::as_bytes(std::span(proof)); }

bool refused(const std::string& folder, std::string_view why) {
  const auto opened = MachineProof::open(folder);
  return !opened && opened.error().text.find(why) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(machine_proof)

BOOST_AUTO_TEST_CASE(processes_of_one_user_prove_it_to_each_other) {
  const TemporaryFolder temporary;
  const std::string folder = temporary / "starling";
  const MachineProof a = MachineProof::open(folder).value();
  const MachineProof b = MachineProof::open(folder).value();
  struct stat info {};
  BOOST_REQUIRE(stat((folder + "/machine.key").c_str(), &info) == 0);
  BOOST_TEST((info.st_mode & 0777) == 0600U);
  BOOST_REQUIRE(stat(folder.c_str(), &info) == 0);
  BOOST_TEST((info.st_mode & 0777) == 0700U);
  BOOST_TEST(b.accepts(bytes("link 1, a"), view(a.of(bytes("link 1, a")))));
  BOOST_TEST(!b.accepts(bytes("link 1, b"), view(a.of(bytes("link 1, a")))));
  BOOST_TEST(!b.accepts(bytes("link 1, a"), {}));
  const MachineProof other = MachineProof::open(temporary / "other").value();
  BOOST_TEST(!other.accepts(bytes("link 1, a"), view(a.of(bytes("link 1, a")))));
}

BOOST_AUTO_TEST_CASE(what_others_may_use_proves_nothing) {
  const TemporaryFolder temporary;
  const std::string folder = temporary / "starling";
  const std::string file = folder + "/machine.key";
  BOOST_REQUIRE(MachineProof::open(folder).has_value());
  BOOST_REQUIRE(chmod(folder.c_str(), 0755) == 0);
  BOOST_TEST(refused(folder, "mode 0700 is needed"));
  BOOST_REQUIRE(chmod(folder.c_str(), 0700) == 0);
  BOOST_REQUIRE(chmod(file.c_str(), 0644) == 0);
  BOOST_TEST(refused(folder, "mode 0600 is needed"));
  BOOST_REQUIRE(chmod(file.c_str(), 0600) == 0);
  BOOST_TEST(MachineProof::open(folder).has_value());
  fs::resize_file(file, 31);
  BOOST_TEST(refused(folder, "is not a key of starling"));
  fs::remove(file);
  fs::create_symlink("/etc/hostname", file);
  BOOST_TEST(refused(folder, file));
  const std::string link = temporary / "link";
  fs::create_directory_symlink(folder, link);
  BOOST_TEST(refused(link, "is not a folder"));
  const std::string plain = temporary / "plain";
  std::ofstream(plain) << "x";
  BOOST_TEST(refused(plain, "is not a folder"));
}

BOOST_AUTO_TEST_SUITE_END()
