#include "runtime/relay.hpp"

#include <utility>

#include "peer/core.hpp"
#include "runfile/invite.hpp"
#include "runtime/answers.hpp"

namespace starling::runtime {
namespace {

/// Of a frame with a piece of a circuit, the longest that a relay gets.
constexpr std::size_t kPayloadMax = 64 * 1024;

}  // namespace

using base::fail;

base::Result<std::unique_ptr<Relay>> Relay::open(RelayOptions relay, Options options) {
  auto own = take_belongings("relay", relay.secret, options);
  if (!own) return fail(own.error());
  std::unique_ptr<Relay> made(new Relay(std::move(relay), std::move(options), std::move(*own)));
  if (auto opened = made->open_node(); !opened) return fail(opened.error());
  return made;
}

Relay::Relay(RelayOptions relay, Options options, Belongings own)
    : relay_(std::move(relay)), options_(std::move(options)), own_(std::move(own)) {}

Relay::~Relay() = default;

base::Status Relay::open_node() {
  io::Node::Options made = node_options(options_, own_.log);
  made.transport = {.listen = options_.listen,
                    .tls = true,
                    .secret = own_.secret,
                    .fabric = "none",
                    .proxy = own_.proxy,
                    .link_memory = io::kLinkMemoryMin,
                    .payload_max = kPayloadMax,
                    .relay_limit = static_cast<std::uint64_t>(relay_.relay.limit * 1e6 / 8)};
  made.observer.report = [](const peer::Status&, const peer::Report&) {};
  made.observer.remember = [](const std::vector<std::string>&) {};
  made.observer.refused = [](const peer::Refused&) {};
  made.serve = [this](const io::ControlRequest& request, const io::Node& asked) {
    return serve(request, asked);
  };
  auto opened = runtime::open_node(dir(), name(), own_.identity, std::move(made));
  if (!opened) return fail(opened.error());
  node_ = std::move(*opened);
  return {};
}

io::NodeEnd Relay::run() {
  return run_node(*node_, name(), own_.identity, own_.log,
                  [this](wire::MemberRecord self, membership::Signer& signer, base::Rng rng) {
                    self.has_replica = false;
                    return std::make_unique<peer::Core>(
                        peer::relay_config(relay_.run, options_.join, relay_.relay),
                        std::move(self), nothing_, peer::Resume{}, signer, rng);
                  });
}

io::ControlReply Relay::serve(const io::ControlRequest& request, const io::Node& asked) const {
  const peer::Status status = asked.status();
  if (request.path != "/invite") return answer(request, status, extra_of(status, asked));
  std::optional<runfile::Invite> invite;
  if (status.run != wire::RunId{}) {
    invite = {
        .addresses = runfile::addresses_to_invite(asked.addresses(), addresses_of_others(status)),
        .run = status.run};
  }
  return {200, report::invite_json(invite, address(), own_.secret.has_value())};
}

}  // namespace starling::runtime
