#include "io/run_file_request.hpp"

#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/printable.hpp"
#include "io/address.hpp"
#include "io/identity.hpp"
#include "io/loop.hpp"
#include "io/transport.hpp"

namespace starling::io {
namespace {

/// One question to each address, until one is answered or none is left.
class Question final : public TransportHandler {
 public:
  Question(Loop& loop, const wire::RunId& run) : loop_(loop), run_(run) {}

  void ask(Transport& transport, const std::vector<std::string>& addresses) {
    transport_ = &transport;
    for (const std::string& address : addresses) {
      if (auto target = parse_target(address); !target) {
        failed(address, target.error().text);
      } else {
        dials_[transport.dial(address)] = address;
      }
    }
    stop_if_over();
  }

  /// What was answered, or why nothing was.
  [[nodiscard]] base::Result<std::string> outcome() && {
    if (answer_) return std::move(*answer_);
    for (const auto& [dial, address] : dials_) failed(address, "no answer in time");
    for (const auto& [link, asked] : links_) failed(asked.address, "no answer in time");
    return base::fail(base::ErrorCode::unreachable, "no peer has handed out a run file:{}",
                      failures_);
  }

  void on_link_up(base::LinkId link, const base::PeerId&, std::uint64_t dial,
                  const std::string& address) override {
    if (dials_.erase(dial) == 0) return transport_->abort(link);  // nobody should dial this
    links_[link] = {.address = address};
    static_cast<void>(
        transport_->send(link, wire::encode(wire::RunFileRequest{}), wire::Purpose::other));
  }

  void on_frame(base::LinkId link, wire::Frame&& frame, base::Duration) override {
    const auto found = links_.find(link);
    if (found == links_.end()) return;
    Asked& asked = found->second;
    auto message = wire::decode(std::move(frame));
    if (!message) return give_up(link, message.error().text);
    if (!*message) return;
    if (const auto* hello = std::get_if<wire::Hello>(&**message)) {
      asked.right_run = hello->run == run_;
      if (!asked.right_run) give_up(link, fmt::format("trains another run, {}", hello->run.hex()));
    } else if (const auto* refusal = std::get_if<wire::Refuse>(&**message)) {
      give_up(link, base::printable(refusal->text, base::kShownMax));
    } else if (auto* reply = std::get_if<wire::RunFileReply>(&**message)) {
      if (!asked.right_run) return give_up(link, "does not say what it trains");
      answer_ = std::move(reply->text);
      stop_if_over();
    }
  }

  void on_part(base::LinkId, std::uint8_t, std::size_t) override {}

  void on_link_down(base::LinkId link, LinkEnd, const std::string& text) override {
    const auto found = links_.find(link);
    if (found == links_.end()) return;
    failed(found->second.address, text.empty() ? "the link was closed without an answer" : text);
    links_.erase(found);
    stop_if_over();
  }

  void on_dial_failed(std::uint64_t dial, const std::string& text) override {
    const auto found = dials_.find(dial);
    if (found == dials_.end()) return;
    failures_ += "\n  " + text;  // which names the address
    dials_.erase(found);
    stop_if_over();
  }

 private:
  struct Asked {
    std::string address;
    bool right_run = false;  ///< it has said so
  };

  void failed(const std::string& address, const std::string& why) {
    failures_ += fmt::format("\n  {}: {}", base::printable(address, wire::kAddressMax), why);
  }

  void give_up(base::LinkId link, const std::string& why) {
    failed(links_.at(link).address, why);
    links_.erase(link);
    transport_->abort(link);
    stop_if_over();
  }

  void stop_if_over() {
    if (answer_ || (dials_.empty() && links_.empty())) loop_.stop();
  }

  Loop& loop_;
  const wire::RunId& run_;
  Transport* transport_ = nullptr;
  std::map<std::uint64_t, std::string> dials_;
  std::map<base::LinkId, Asked> links_;
  std::string failures_;
  std::optional<std::string> answer_;
};

}  // namespace

base::Result<std::string> request_run_file(const peer::Invite& invite,
                                           const std::optional<Secret>& secret) {
  const auto identity = Identity::generate();
  if (!identity) return base::fail(identity.error());
  Loop loop;
  Question question(loop, invite.run);
  auto transport = Transport::create(
      loop, {.tls = invite.security == peer::Security::tls, .secret = secret}, *identity, question);
  if (!transport) return base::fail(transport.error());
  {
    Timer timeout(loop, [&] { loop.stop(); });
    timeout.start(kRunFileTimeout);
    question.ask(**transport, invite.addresses);
    loop.run();
  }
  auto outcome = std::move(question).outcome();
  bool down = false;
  (*transport)->shutdown([&] { down = true; });
  while (!down) loop.run_once();
  transport->reset();
  loop.run();
  return outcome;
}

}  // namespace starling::io
