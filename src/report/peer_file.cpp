#include "report/peer_file.hpp"

#include <nlohmann/json.hpp>

#include "base/file.hpp"

namespace starling::report {
namespace {

constexpr std::uint64_t kPeerFileMax = 64 * 1024;

}  // namespace

base::Status write_peer_file(const std::string& dir, const PeerFile& file) {
  const std::string text = nlohmann::ordered_json{{"name", file.name},
                                                  {"address", file.address},
                                                  {"control", file.control},
                                                  {"pid", file.pid}}
                               .dump(2) +
                           "\n";
  return base::replace_file(dir + "/" + kPeerFile, text, base::Durability::unsynced);
}

base::Result<PeerFile> read_peer_file(const std::string& dir) {
  const std::string path = dir + "/" + kPeerFile;
  const auto bytes = base::read_file(path, kPeerFileMax);
  if (!bytes) return base::fail(bytes.error());
  const auto json = nlohmann::json::parse(base::text_of(*bytes), nullptr, false);
  try {
    return PeerFile{.name = json.at("name"),
                    .address = json.at("address"),
                    .control = json.at("control"),
                    .pid = json.at("pid")};
  } catch (const nlohmann::json::exception&) {
    return base::fail(base::ErrorCode::data, "{}: not what a peer writes there", path);
  }
}

}  // namespace starling::report
