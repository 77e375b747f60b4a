// Run: its answers on its control port, and to requests for its run file.
#include <string>

#include "runtime/answers.hpp"
#include "runtime/run.hpp"
#include "wire/messages.hpp"

namespace starling::runtime {

report::StatusExtra Run::extra(const peer::Status& status, const io::Node& asked) const {
  report::StatusExtra made = extra_of(status, asked);
  made.run = run_file_.run.name;
  made.parameters = task_.parameters.size();
  made.bytes_per_label = task_.bytes_per_label;
  if (status.training_since) {
    made.seconds = base::seconds(io::Loop::now() - *status.training_since);
    const double trained =
        status.last_step ? base::seconds(*status.last_step - *status.training_since) : 0;
    if (trained > 0) {
      made.samples_per_second = static_cast<double>(status.samples - samples_before()) / trained;
    }
  }
  return made;
}

std::string Run::shared_run_file() const {
  if (run_file_.embedded) return {};
  std::string text = runfile::shared_toml(run_file_);
  return text.size() <= wire::kRunFileTextMax ? text : std::string();
}

std::optional<runfile::Invite> Run::invite(const std::vector<std::string>& others) const {
  if (shared_run_file().empty()) return std::nullopt;
  runfile::Invite made{.addresses = runfile::addresses_to_invite(node_->addresses(), others),
                       .run = run_id_,
                       .security = run_file_.security};
  if (made.addresses.empty()) return std::nullopt;
  return made;
}

io::ControlReply Run::serve(const io::ControlRequest& request, const io::Node& asked) const {
  if (request.path == "/history") return {200, recorder_->thinned(), "text/csv"};
  const peer::Status status = asked.status();
  if (request.path == "/invite") {
    return {200, report::invite_json(invite(addresses_of_others(status)), asked.addresses().front(),
                                     secret_.has_value())};
  }
  return answer(request, status, extra(status, asked));
}

}  // namespace starling::runtime
