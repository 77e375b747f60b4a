#include "doctor_peer.hpp"

#include <cstdint>
#include <map>
#include <string>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "control_client.hpp"
#include "io/address.hpp"
#include "reply_text.hpp"

namespace starling::peers {
namespace {

void add_reach(const nlohmann::json& status, Findings& findings) {
  const std::string name = fmt::format("{} ({})", shown(status.at("name")), brief(status.at("id")));
  const std::string reach = status.at("reach").get<std::string>();
  const std::string at =
      status.at("outer_address").is_null() ? "" : " at " + shown(status.at("outer_address"));
  if (reach == "reachable") {
    return findings.add("reach", Verdict::good,
                        fmt::format("{} is reachable: another member dialed it{}", name, at));
  }
  if (reach == "dials only") {
    const auto address = io::parse_address(status.at("address").get<std::string>());
    return findings.add(
        "reach", Verdict::absent,
        fmt::format("{} dials only: no member could dial it{}. Let TCP port {} through the "
                    "firewall, or forward it in the router to that machine (--announce names it "
                    "if its outer port is a different one)",
                    name, at, address ? address->port : 0));
  }
  findings.add("reach", Verdict::absent,
               fmt::format("not known yet: {} has {} links, and has to be dialed by a member for "
                           "that, if possible of another network",
                           name, status.at("links").get<std::uint64_t>()));
}

void add_mapping(const nlohmann::json& mapping, Findings& findings) {
  if (mapping.is_null()) return;  // no router is asked
  const std::string text = base::printable(mapping.at("text").get<std::string>(), wire::kTextMax);
  findings.add("mapping", mapping.at("addresses").empty() ? Verdict::absent : Verdict::good,
               text.empty() ? "the router has not answered yet" : text);
}

void add_relays(const nlohmann::json& status, const nlohmann::json& links, Findings& findings) {
  std::map<std::string, std::string> names;  // names of the links' other ends, by relay
  for (const auto& link : links) {
    if (link.at("via").is_null()) continue;
    std::string& of_relay = names[shown(link.at("via"))];
    of_relay += (of_relay.empty() ? "" : ", ") + shown(link.at("name"));
  }
  for (const auto& [relay, others] : names) {
    findings.add("relays", Verdict::good,
                 fmt::format("links with {} go through {}", others, relay));
  }
  if (names.empty()) {
    findings.add("relays", Verdict::absent, "no link of this peer goes through another peer");
  }
  if (const auto circuits = status.at("circuits_relayed").get<std::uint64_t>(); circuits > 0) {
    findings.add("relays", Verdict::good, "it relays " + circuits_text(circuits));
  }
}

base::Status ask_and_find(const std::string& peer, Findings& findings) {
  const auto control = find_control(peer);
  if (!control) return base::fail(control.error());
  const auto status = ask(*control, "/status");
  if (!status) return base::fail(status.error());
  const auto links = ask(*control, "/links");
  if (!links) return base::fail(links.error());
  try {
    const auto of_peer = nlohmann::json::parse(*status);
    add_reach(of_peer, findings);
    add_mapping(of_peer.at("port_mapping"), findings);
    add_relays(of_peer, nlohmann::json::parse(*links), findings);
  } catch (const nlohmann::json::exception&) {
    return base::fail(base::ErrorCode::internal, "{}", kNoReply);
  }
  return {};
}

}  // namespace

base::Status find_reach(const std::string& peer, Findings& findings) {
  auto found = ask_and_find(peer, findings);
  if (found || found.error().code == base::ErrorCode::usage) return found;
  findings.wrong("reach", found.error());
  return {};
}

}  // namespace starling::peers
