// status, members, links, invite, leave, checkpoint: asking a running peer.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/printable.hpp"
#include "commands.hpp"
#include "complain.hpp"
#include "control_client.hpp"
#include "peer/status.hpp"
#include "reply_text.hpp"
#include "report/format.hpp"
#include "runfile/invite.hpp"
#include "wire/messages.hpp"

namespace starling::peers {
namespace {

using Json = nlohmann::json;

std::string percent(const Json& value) {
  return value.is_number() ? fmt::format("{:.2f}%", value.get<double>() * 100) : "-";
}

std::string number(const Json& value, int digits) {
  return value.is_number() ? fmt::format("{:.{}f}", value.get<double>(), digits) : "-";
}

std::string reach_text(const Json& status) {
  std::string reach = shown(status.at("reach"));
  if (reach == "unknown") return "not known yet";
  if (reach != "reachable" || status.at("outer_address").is_null()) return reach;
  return reach + " at " + shown(status.at("outer_address"));
}

/// How far a training peer has come. `line` takes a name and a value.
template <class Line>
void add_training(const Json& status, const Line& line) {
  line("progress", fmt::format("{} ({} of {} samples)", percent(status.at("progress")),
                               status.at("swarm_samples").get<std::uint64_t>(),
                               status.at("target_samples").get<std::uint64_t>()));
  line("own",
       fmt::format("{} steps, {} samples, {} samples/s", status.at("steps").get<std::uint64_t>(),
                   status.at("samples").get<std::uint64_t>(),
                   number(status.at("samples_per_second"), 0)));
  line("accuracy", percent(status.at("accuracy")));
  line("loss", fmt::format("{} (training {})", number(status.at("loss"), 4),
                           number(status.at("train_loss"), 4)));
  if (status.at("bits_per_byte").is_number()) {
    line("language",
         fmt::format("perplexity {}, {} bits a byte", number(status.at("perplexity"), 2),
                     number(status.at("bits_per_byte"), 4)));
  }
  line("drift", percent(status.at("drift")));
  for (const Json& one : status.at("left_out")) {
    line("left out", fmt::format("{} ({}): {}", shown(one.at("name")), brief(one.at("id")),
                                 shown(one.at("why"))));
  }
  line("exchanges", fmt::format("{} over {} links", status.at("exchanges").get<std::uint64_t>(),
                                status.at("links").get<std::uint64_t>()));
}

std::string status_text(const Json& status) {
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<12} {}\n", name, value);
  };
  line("peer", fmt::format("{} ({})", shown(status.at("name")), brief(status.at("id"))));
  line("address", shown(status.at("address")));
  line("reach", reach_text(status));
  if (const auto circuits = status.at("circuits_relayed").get<std::uint64_t>(); circuits > 0) {
    line("relays", circuits_text(circuits));
  }
  const std::string phase = shown(status.at("phase"));
  line("phase", phase);
  if (phase == peer::to_string(peer::Phase::relaying)) {
    const std::string run = shown(status.at("run_id"));
    line("run", run == wire::RunId{}.hex() ? "none yet" : run);
    line("links", fmt::format("{}", status.at("links").get<std::uint64_t>()));
  } else {
    add_training(status, line);
  }
  line("sent", report::format_bytes(status.at("bytes_sent").at("total").get<std::uint64_t>()));
  line("received",
       report::format_bytes(status.at("bytes_received").at("total").get<std::uint64_t>()));
  return text;
}

/// Where a member's learning rate is far from that of most.
std::string rate_note(const Json& member) {
  if (member.at("learning_rate_apart").is_null()) return {};
  return fmt::format("  learning rate {}, {:.0f} times off most others",
                     shown(member.at("learning_rate")),
                     member.at("learning_rate_apart").get<double>());
}

std::string members_text(const Json& members) {
  std::string text =
      fmt::format("{:<18} {:<8} {:<8} {:<10} {:>12} {:>7} {:>9} {:>8} {:>6}  {}\n", "name", "id",
                  "state", "reach", "samples", "share", "accuracy", "drift", "links", "addresses");
  for (const Json& member : members) {
    std::vector<std::string> addresses;
    for (const Json& address : member.at("addresses")) addresses.push_back(shown(address));
    const bool relays = member.at("relay").get<bool>();
    const auto trained = [&](const char* what) {
      return relays ? "-" : fmt::format("{}", member.at(what).get<std::uint64_t>());
    };
    text += fmt::format("{:<18} {:<8} {:<8} {:<10} {:>12} {:>7} {:>9} {:>8} {:>6}  {}{}\n",
                        shown(member.at("name")), brief(member.at("id")),
                        member.at("self").get<bool>() ? "self" : shown(member.at("state")),
                        shown(member.at("reach")), trained("samples"), percent(member.at("share")),
                        percent(member.at("accuracy")), percent(member.at("drift")),
                        trained("links"), fmt::join(addresses, " "), rate_note(member));
  }
  return text;
}

std::string links_text(const Json& links) {
  std::string text =
      fmt::format("{:<18} {:<8} {:<9} {:>9} {:>8} {:>9} {:>8} {:>8} {:>10} {:>10}  {:<8} {}\n",
                  "name", "id", "state", "exchange", "drift", "density", "Mbit/s", "rtt ms", "sent",
                  "received", "carrier", "address");
  std::map<std::string, std::string> reasons;  // why links do not use UCX, and which
  std::string doubts;
  for (const Json& link : links) {
    text += fmt::format(
        "{:<18} {:<8} {:<9} {:>9} {:>8} {:>9} {:>8} {:>8} {:>10} {:>10}  {:<8} {}\n",
        shown(link.at("name")), brief(link.at("id")), shown(link.at("state")),
        link.at("exchange").get<std::uint64_t>(), percent(link.at("drift")),
        percent(link.at("density")), number(link.at("mbit"), 1),
        number(link.at("round_trip_ms"), 2),
        report::format_bytes(link.at("bytes_sent").at("total").get<std::uint64_t>()),
        report::format_bytes(link.at("bytes_received").at("total").get<std::uint64_t>()),
        shown(link.at("carrier")),
        link.at("via").is_null() ? shown(link.at("address")) : "via " + shown(link.at("via")));
    const std::string trust = shown(link.at("trust"));
    if (trust == "doubted" || trust == "none") {
      doubts += fmt::format("{}: pulls this peer to {} times the loss, on this peer's data\n",
                            shown(link.at("name")), number(link.at("loss_times"), 1));
    }
    if (const std::string why = shown(link.at("why_not_ucx")); !why.empty()) {
      std::string& names = reasons[why];
      names += (names.empty() ? "" : ", ") + shown(link.at("name"));
    }
  }
  for (const auto& [why, names] : reasons)
    text += fmt::format("not over UCX: {}: {}\n", names, why);
  return text + doubts;
}

std::string invite_text(const Json& invite) {
  if (invite.at("invite").is_null()) {
    return fmt::format(
        "this peer hands out no run file (another program trains, or the file is too long); with a "
        "copy of it:\nstarling up RUN.toml --join {}\n",
        shown(invite.at("address")));
  }
  const std::string text =
      base::printable(invite.at("invite").get<std::string>(), runfile::kInviteTextMax);
  return fmt::format("starling join {}{}\n", runfile::invite_word(text),
                     invite.at("secret").get<bool>() ? " --secret FILE" : "");
}

/// The text printed for a reply; nothing if a peer would not answer so.
std::optional<std::string> text_of(const QueryOptions& options, const std::string& reply) {
  const std::string& what = options.what;
  const Json json = Json::parse(reply, nullptr, false);
  const bool list = what == "members" || what == "links";
  if (list ? !json.is_array() : !json.is_object()) return std::nullopt;
  if (options.json) return reply;
  try {
    if (what == "status") return status_text(json);
    if (what == "members") return members_text(json);
    if (what == "links") return links_text(json);
    if (what == "invite") return invite_text(json);
  } catch (const Json::exception&) {
    return std::nullopt;
  }
  return what == "leave" ? "the peer saves and leaves\n" : "the peer saves\n";
}

}  // namespace

int run_query(const QueryOptions& options) {
  const bool post = options.what == "leave" || options.what == "checkpoint";
  const auto control = find_control(options.peer);
  const auto reply = control ? ask(*control, "/" + options.what, post)
                             : base::Result<std::string>(tl::unexpect, control.error());
  if (!reply) return complain(options.what, reply.error());
  const auto text = text_of(options, *reply);
  if (!text) {
    return complain(options.what, {base::ErrorCode::internal, kNoReply});
  }
  fmt::print("{}", *text);
  return 0;
}

}  // namespace starling::peers
