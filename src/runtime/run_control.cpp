// Run: what it answers on its control port, and whom it hands its run file.
#include <algorithm>
#include <string>

#include "report/page.hpp"
#include "report/prometheus.hpp"
#include "runtime/by_purpose.hpp"
#include "runtime/run.hpp"
#include "wire/messages.hpp"

namespace starling::runtime {
namespace {

/// One of each member that is alive and may be dialed: first those that this peer has dialed
/// itself, which lead there.
std::vector<std::string> addresses_of_others(const peer::Status& status) {
  std::vector<std::string> dialed;
  std::vector<std::string> told;
  for (const peer::MemberStatus& member : status.members) {
    const std::vector<std::string>& all = member.record.addresses;
    if (member.self || member.record.state != wire::MemberState::alive || all.empty()) continue;
    if (member.record.reach == wire::Reachability::dials_only) continue;
    const auto link = std::ranges::find(status.links, member.record.id, &peer::LinkStatus::peer);
    // A link that came in has the port of the other end's socket, which nobody can dial.
    const bool leads_there =
        link != status.links.end() && std::ranges::count(all, link->address) > 0;
    (leads_there ? dialed : told).push_back(leads_there ? link->address : all.front());
  }
  dialed.insert(dialed.end(), told.begin(), told.end());
  return dialed;
}

}  // namespace

report::StatusExtra Run::extra(const peer::Status& status, const io::Node& asked) const {
  report::StatusExtra made{.run = run_file_.run.name,
                           .run_id = run_id_.hex(),
                           .parameters = task_.parameters.size(),
                           .address = asked.addresses().front(),
                           .bytes_per_label = task_.bytes_per_label};
  if (const io::PortMapping* mapping = asked.port_mapping()) {
    made.port_mapping = {mapping->addresses(), mapping->said()};
  }
  if (status.training_since) {
    made.seconds = base::seconds(io::Loop::now() - *status.training_since);
    const double trained =
        status.last_step ? base::seconds(*status.last_step - *status.training_since) : 0;
    if (trained > 0) {
      made.samples_per_second = static_cast<double>(status.samples - samples_before()) / trained;
    }
  }
  const io::LinkTraffic all = asked.traffic();
  made.bytes_sent = by_purpose(all.sent);
  made.bytes_received = by_purpose(all.received);
  for (const peer::LinkStatus& link : status.links) {
    const io::LinkTraffic one = asked.traffic(link.link);
    made.link_sent.push_back(by_purpose(one.sent));
    made.link_received.push_back(by_purpose(one.received));
    const io::LinkCarrier carrier = asked.carrier(link.link);
    made.link_carrier.push_back({io::to_string(carrier.kind), carrier.why});
  }
  return made;
}

std::string Run::shared_run_file() const {
  if (run_file_.embedded) return {};
  std::string text = peer::shared_toml(run_file_);
  return text.size() <= wire::kRunFileTextMax ? text : std::string();
}

std::optional<peer::Invite> Run::invite(const std::vector<std::string>& others) const {
  if (shared_run_file().empty()) return std::nullopt;
  peer::Invite made{.addresses = peer::addresses_to_invite(node_->addresses(), others),
                    .run = run_id_,
                    .security = run_file_.security};
  if (made.addresses.empty()) return std::nullopt;
  return made;
}

io::ControlReply Run::serve(const io::ControlRequest& request, const io::Node& asked) const {
  if (const auto file = report::page_file(request.path)) {
    return {200, std::string(file->content), file->type};
  }
  if (request.path == "/history") return {200, recorder_->thinned(), "text/csv"};
  const peer::Status status = asked.status();
  if (request.path == "/metrics") {
    return {200, report::prometheus_text(status, extra(status, asked)), report::kPrometheusType};
  }
  if (request.path == "/status") return {200, report::status_json(status, extra(status, asked))};
  if (request.path == "/invite") {
    return {200, report::invite_json(invite(addresses_of_others(status)), asked.addresses().front(),
                                     secret_.has_value())};
  }
  if (request.path == "/members") return {200, report::members_json(status)};
  if (request.path == "/links") return {200, report::links_json(status, extra(status, asked))};
  return io::error_reply(404, "no such path");
}

}  // namespace starling::runtime
