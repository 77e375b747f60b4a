// status, members, links, leave, checkpoint: asking a running peer.
#include <cmath>
#include <cstdio>
#include <iterator>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "control_client.hpp"
#include "report/format.hpp"

namespace starling::peers {
namespace {

using Json = nlohmann::json;

std::string percent(const Json& value) {
  return value.is_number() ? fmt::format("{:.2f}%", value.get<double>() * 100) : "-";
}

std::string number(const Json& value, int digits) {
  return value.is_number() ? fmt::format("{:.{}f}", value.get<double>(), digits) : "-";
}

void print_status(const Json& status) {
  const auto line = [](const char* name, const std::string& value) {
    fmt::print("{:<12} {}\n", name, value);
  };
  line("peer", fmt::format("{} ({})", status.at("name").get<std::string>(),
                           status.at("id").get<std::string>().substr(0, 8)));
  line("address", status.at("address").get<std::string>());
  line("phase", status.at("phase").get<std::string>());
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
  line("exchanges", fmt::format("{} over {} links", status.at("exchanges").get<std::uint64_t>(),
                                status.at("links").get<std::uint64_t>()));
  line("sent", report::format_bytes(status.at("bytes_sent").at("total").get<std::uint64_t>()));
  line("received",
       report::format_bytes(status.at("bytes_received").at("total").get<std::uint64_t>()));
}

void print_members(const Json& members) {
  fmt::print("{:<18} {:<8} {:<8} {:>12} {:>9} {:>8} {:>6}  {}\n", "name", "id", "state", "samples",
             "accuracy", "drift", "links", "addresses");
  for (const Json& member : members) {
    fmt::print("{:<18} {:<8} {:<8} {:>12} {:>9} {:>8} {:>6}  {}\n",
               member.at("name").get<std::string>(),
               member.at("id").get<std::string>().substr(0, 8),
               member.at("self").get<bool>() ? "self" : member.at("state").get<std::string>(),
               member.at("samples").get<std::uint64_t>(), percent(member.at("accuracy")),
               percent(member.at("drift")), member.at("links").get<std::uint32_t>(),
               fmt::join(member.at("addresses").get<std::vector<std::string>>(), " "));
  }
}

void print_links(const Json& links) {
  fmt::print("{:<18} {:<8} {:<9} {:>9} {:>8} {:>9} {:>8} {:>8} {:>10} {:>10}  {}\n", "name", "id",
             "state", "exchange", "drift", "density", "Mbit/s", "rtt ms", "sent", "received",
             "address");
  for (const Json& link : links) {
    fmt::print("{:<18} {:<8} {:<9} {:>9} {:>8} {:>9} {:>8} {:>8} {:>10} {:>10}  {}\n",
               link.at("name").get<std::string>(), link.at("id").get<std::string>().substr(0, 8),
               link.at("state").get<std::string>(), link.at("exchange").get<std::uint64_t>(),
               percent(link.at("drift")), percent(link.at("density")), number(link.at("mbit"), 1),
               number(link.at("round_trip_ms"), 2),
               report::format_bytes(link.at("bytes_sent").at("total").get<std::uint64_t>()),
               report::format_bytes(link.at("bytes_received").at("total").get<std::uint64_t>()),
               link.at("address").get<std::string>());
  }
}

void print(const std::string& what, const Json& reply) {
  if (what == "status") {
    print_status(reply);
  } else if (what == "members") {
    print_members(reply);
  } else if (what == "links") {
    print_links(reply);
  } else {
    fmt::print("{}\n", what == "leave" ? "the peer saves and leaves" : "the peer saves");
  }
}

}  // namespace

int run_query(const QueryOptions& options) {
  const bool post = options.what == "leave" || options.what == "checkpoint";
  const auto control = find_control(options.peer);
  const auto reply = control ? ask(*control, "/" + options.what, post)
                             : base::Result<std::string>(tl::unexpect, control.error());
  if (!reply) {
    fmt::print(stderr, "starling {}: {}\n", options.what, reply.error().text);
    return base::exit_code(reply.error().code);
  }
  if (options.json) {
    fmt::print("{}", *reply);
    return 0;
  }
  try {
    print(options.what, Json::parse(*reply));
  } catch (const Json::exception&) {
    fmt::print(stderr,
               "starling {}: the reply is not what a peer answers; is it of another "
               "version?\n",
               options.what);
    return base::exit_code(base::ErrorCode::internal);
  }
  return 0;
}

}  // namespace starling::peers
