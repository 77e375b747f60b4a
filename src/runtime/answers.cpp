#include "runtime/answers.hpp"

#include <algorithm>

#include "report/page.hpp"
#include "report/prometheus.hpp"
#include "runtime/by_purpose.hpp"
#include "wire/messages.hpp"

namespace starling::runtime {

report::StatusExtra extra_of(const peer::Status& status, const io::Node& node) {
  report::StatusExtra made{.run_id = status.run.hex(), .address = node.addresses().front()};
  if (const io::PortMapping* mapping = node.port_mapping()) {
    made.port_mapping = {mapping->addresses(), mapping->said()};
  }
  const io::LinkTraffic all = node.traffic();
  made.bytes_sent = by_purpose(all.sent);
  made.bytes_received = by_purpose(all.received);
  for (const peer::LinkStatus& link : status.links) {
    const io::LinkTraffic one = node.traffic(link.link);
    made.link_sent.push_back(by_purpose(one.sent));
    made.link_received.push_back(by_purpose(one.received));
    const io::LinkCarrier carrier = node.carrier(link.link);
    made.link_carrier.push_back({io::to_string(carrier.kind), carrier.why});
  }
  return made;
}

std::vector<std::string> addresses_of_others(const peer::Status& status) {
  std::vector<std::string> dialed;
  std::vector<std::string> told;
  for (const peer::MemberStatus& member : status.members) {
    const std::vector<std::string>& all = member.record.addresses;
    if (member.self || member.record.state != wire::MemberState::alive || all.empty()) continue;
    if (member.record.reach == wire::Reachability::dials_only) continue;
    const auto link = std::ranges::find(status.links, member.record.id, &peer::LinkStatus::peer);
    // An incoming link shows the port of the other end's socket, which cannot be dialed.
    const bool leads_there =
        link != status.links.end() && std::ranges::count(all, link->address) > 0;
    (leads_there ? dialed : told).push_back(leads_there ? link->address : all.front());
  }
  dialed.insert(dialed.end(), told.begin(), told.end());
  return dialed;
}

io::ControlReply answer(const io::ControlRequest& request, const peer::Status& status,
                        const report::StatusExtra& extra) {
  if (const auto file = report::page_file(request.path)) {
    return {200, std::string(file->content), file->type};
  }
  if (request.path == "/metrics") {
    return {200, report::prometheus_text(status, extra), report::kPrometheusType};
  }
  if (request.path == "/status") return {200, report::status_json(status, extra)};
  if (request.path == "/members") return {200, report::members_json(status)};
  if (request.path == "/links") return {200, report::links_json(status, extra)};
  return io::error_reply(404, "no such path");
}

}  // namespace starling::runtime
