// Run: what it answers on its control port, and whom it hands its run file.
#include <algorithm>
#include <string>

#include "report/page.hpp"
#include "report/prometheus.hpp"
#include "runtime/by_purpose.hpp"
#include "runtime/run.hpp"
#include "wire/messages.hpp"

namespace starling::runtime {

report::StatusExtra Run::extra(const peer::Status& status, const io::Node& asked) const {
  report::StatusExtra made{.run = run_file_.run.name,
                           .run_id = run_id_.hex(),
                           .parameters = task_.parameters.size(),
                           .address = asked.addresses().front(),
                           .bytes_per_label = task_.bytes_per_label};
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
  peer::Invite made{.run = run_id_, .security = run_file_.security};
  const auto add = [&](const std::string& address) {
    const bool full = made.addresses.size() == peer::kInviteAddressesMax;
    if (full || !peer::may_be_in_invite(address)) return;
    if (std::ranges::count(made.addresses, address) == 0) made.addresses.push_back(address);
  };
  const std::vector<std::string>& own = node_->addresses();
  add(own.front());
  for (const std::string& other : others) add(other);
  for (const std::string& further : own) add(further);
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
    std::vector<std::string> others;
    for (const peer::MemberStatus& member : status.members) {
      if (member.self || member.record.state != wire::MemberState::alive) continue;
      if (!member.record.addresses.empty()) others.push_back(member.record.addresses.front());
    }
    return {200,
            report::invite_json(invite(others), asked.addresses().front(), secret_.has_value())};
  }
  if (request.path == "/members") return {200, report::members_json(status)};
  if (request.path == "/links") return {200, report::links_json(status, extra(status, asked))};
  return io::error_reply(404, "no such path");
}

}  // namespace starling::runtime
