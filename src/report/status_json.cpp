#include "report/status_json.hpp"

#include <nlohmann/json.hpp>

#include "base/assert.hpp"
#include "exchange/clip.hpp"
#include "exchange/weight.hpp"
#include "report/bytes_json.hpp"

namespace starling::report {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

/// Names and addresses come from other peers: bytes that are not UTF-8 are replaced and do not
/// throw.
std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json port_mapping_json(const std::optional<PortMapped>& mapping) {
  if (!mapping) return nullptr;
  return {{"addresses", mapping->addresses}, {"text", mapping->text}};
}

Json left_out_json(const std::vector<peer::LeftOut>& left_out) {
  Json all = Json::array();
  for (const peer::LeftOut& one : left_out) {
    all.push_back({{"name", one.name},
                   {"id", one.peer.hex()},
                   {"why", base::name_of(one.why, exchange::kLeftOutNames)}});
  }
  return all;
}

}  // namespace

std::string status_json(const peer::Status& status, const StatusExtra& extra) {
  const auto language = language_quality(status.loss, extra.bytes_per_label);
  return dump(Json{{"name", status.name},
                   {"id", status.id.hex()},
                   {"address", extra.address},
                   {"run", extra.run},
                   {"run_id", extra.run_id},
                   {"parameters", extra.parameters},
                   {"phase", peer::to_string(status.phase)},
                   {"steps", status.steps},
                   {"samples", status.samples},
                   {"shards", status.shards},
                   {"swarm_samples", status.swarm_samples},
                   {"target_samples", status.target_samples},
                   {"progress", status.progress},
                   {"seconds", extra.seconds},
                   {"samples_per_second", extra.samples_per_second},
                   {"learning_rate", status.learning_rate},
                   {"train_loss", or_null(status.train_loss)},
                   {"accuracy", or_null(status.accuracy)},
                   {"loss", or_null(status.loss)},
                   {"perplexity", language ? number_json(language->perplexity) : Json()},
                   {"bits_per_byte", language ? number_json(language->bits_per_byte) : Json()},
                   {"whole_test_set", status.whole_test_set},
                   {"drift", or_null(status.drift)},
                   {"settled", or_null(status.settled)},
                   {"left_out", left_out_json(status.left_out)},
                   {"exchanges", status.exchanges},
                   {"reopenings", status.reopenings},
                   {"mismatches", status.mismatches},
                   {"lost_steps", status.lost_steps},
                   {"reach", wire::to_string(status.reach)},
                   {"outer_address", status.outer.empty() ? Json(nullptr) : Json(status.outer)},
                   {"port_mapping", port_mapping_json(extra.port_mapping)},
                   {"circuits_relayed", status.relayed},
                   {"bytes_relayed", status.relayed_bytes},
                   {"links", status.links.size()},
                   {"members", status.members.size()},
                   {"bytes_sent", bytes_json(extra.bytes_sent)},
                   {"bytes_received", bytes_json(extra.bytes_received)}});
}

std::string members_json(const peer::Status& status) {
  Json members = Json::array();
  for (const peer::MemberStatus& member : status.members) {
    members.push_back(
        {{"name", member.record.name},
         {"id", member.record.id.hex()},
         {"state", wire::to_string(member.record.state)},
         {"lost", member.lost == wire::DeathReason::none ? Json(nullptr)
                                                         : Json(wire::to_string(member.lost))},
         {"self", member.self},
         {"neighbour", member.neighbour},
         {"addresses", member.record.addresses},
         {"reach", wire::to_string(member.record.reach)},
         {"relay", !member.record.has_replica},
         {"incarnation", member.record.incarnation},
         {"samples", member.progress.samples},
         {"samples_per_second", number_json(member.progress.rate)},
         {"accuracy", number_json(member.progress.accuracy)},
         {"loss", number_json(member.progress.loss)},
         {"drift", member.record.has_replica ? number_json(member.progress.drift) : Json(nullptr)},
         {"weight", exchange::weight_of(member.record.weight)},
         {"share", or_null(member.share)},
         {"learning_rate", member.record.lr == 0 ? Json(nullptr) : number_json(member.record.lr)},
         {"learning_rate_apart", or_null(member.rate_apart)},
         {"links", member.progress.links}});
  }
  return dump(members);
}

std::string links_json(const peer::Status& status, const StatusExtra& extra) {
  ASSERT(extra.link_sent.size() == status.links.size() &&
         extra.link_received.size() == status.links.size() &&
         extra.link_carrier.size() == status.links.size());
  Json links = Json::array();
  for (std::size_t i = 0; i < status.links.size(); ++i) {
    const peer::LinkStatus& link = status.links[i];
    links.push_back({{"name", link.name},
                     {"id", link.peer.hex()},
                     {"address", link.address},
                     {"carrier", extra.link_carrier[i].kind},
                     {"why_not_ucx", extra.link_carrier[i].why},
                     {"via", link.via.empty() ? Json(nullptr) : Json(link.via)},
                     {"state", link.state},
                     {"exchange", link.exchange},
                     {"drift", link.drift},
                     {"density", link.density},
                     {"trust", exchange::to_string(link.trust)},
                     {"loss_times", link.worse},
                     {"mbit", link.bandwidth > 0 ? Json(link.bandwidth * 8e-6) : Json(nullptr)},
                     {"round_trip_ms", link.round_trip ? Json(base::seconds(*link.round_trip) * 1e3)
                                                       : Json(nullptr)},
                     {"heard_ms_ago", base::seconds(link.heard_ago) * 1e3},
                     {"bytes_sent", bytes_json(extra.link_sent[i])},
                     {"bytes_received", bytes_json(extra.link_received[i])}});
  }
  return dump(links);
}

std::string invite_json(const std::optional<runfile::Invite>& invite, const std::string& address,
                        bool secret) {
  return dump(Json{{"invite", invite ? Json(runfile::to_string(*invite)) : Json(nullptr)},
                   {"address", address},
                   {"secret", secret}});
}

}  // namespace starling::report
