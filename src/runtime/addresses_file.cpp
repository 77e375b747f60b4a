#include "runtime/addresses_file.hpp"

#include <filesystem>
#include <string_view>

#include "base/file.hpp"
#include "io/address.hpp"
#include "membership/limits.hpp"
#include "wire/messages.hpp"

namespace starling::runtime {
namespace {

constexpr std::uint64_t kBytesMax = membership::kRememberedMax * (wire::kAddressMax + 1);

/// Addresses come from other machines: an address with a line end in it would become two. It cannot
/// be dialed anyway.
bool is_kept(const std::string& address) {
  return address.size() <= wire::kAddressMax && io::parse_target(address);
}

}  // namespace

base::Status write_addresses(const std::string& dir, std::span<const std::string> addresses) {
  std::string text;
  for (const std::string& address : addresses) {
    if (is_kept(address)) text += address + "\n";
  }
  return base::replace_file(dir + "/" + kAddressesFile, text, base::Durability::unsynced);
}

base::Result<std::vector<std::string>> read_addresses(const std::string& dir) {
  const std::string path = dir + "/" + kAddressesFile;
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return std::vector<std::string>{};
  const auto bytes = base::read_file(path, kBytesMax);
  if (!bytes) return base::fail(bytes.error());
  std::string_view rest = base::text_of(*bytes);
  std::vector<std::string> addresses;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    const std::string line(rest.substr(0, end));
    // A last line without an end was cut off.
    if (end == std::string_view::npos || addresses.size() == membership::kRememberedMax ||
        !is_kept(line)) {
      return base::fail(base::ErrorCode::data, "{}: line {} is not an address that a peer writes",
                        path, addresses.size() + 1);
    }
    addresses.push_back(line);
    rest.remove_prefix(end + 1);
  }
  return addresses;
}

}  // namespace starling::runtime
