#include "runtime/relay.hpp"

#include <ctime>
#include <random>
#include <utility>

#include <unistd.h>

#include "base/port_range.hpp"
#include "base/rng.hpp"
#include "io/record_signer.hpp"
#include "peer/core.hpp"
#include "peer/invite.hpp"
#include "report/peer_file.hpp"
#include "runtime/answers.hpp"

namespace starling::runtime {
namespace {

/// Of a frame with a piece of a circuit; nobody sends a relay anything longer.
constexpr std::size_t kPayloadMax = 64 * 1024;

}  // namespace

using base::fail;

base::Result<std::unique_ptr<Relay>> Relay::open(RelayOptions relay, Options options) {
  if (auto checked = check(options); !checked) return fail(checked.error());
  auto proxy = io::choose_proxy(options.proxy);
  if (!proxy) return fail(proxy.error());
  auto place = take_place("relay", options.name, options.dir);
  if (!place) return fail(place.error());
  const auto secret = io::Secret::load_if_any(relay.secret);
  if (!secret) return fail(secret.error());
  auto identity = io::Identity::load_or_create(place->dir);
  if (!identity) return fail(identity.error());
  auto log = report::Log::open(place->dir, {.quiet = options.quiet});
  if (!log) return fail(log.error());
  std::unique_ptr<Relay> made(new Relay(std::move(relay), std::move(options), std::move(*place),
                                        *secret, std::move(*proxy), std::move(*identity),
                                        std::move(*log)));
  if (auto opened = made->open_node(); !opened) return fail(opened.error());
  return made;
}

Relay::Relay(RelayOptions relay, Options options, Place place, std::optional<io::Secret> secret,
             std::optional<io::ProxyConfig> proxy, io::Identity identity, report::Log log)
    : relay_(std::move(relay)),
      options_(std::move(options)),
      place_(std::move(place)),
      secret_(secret),
      proxy_(std::move(proxy)),
      identity_(std::move(identity)),
      log_(std::move(log)) {}

Relay::~Relay() = default;

base::Status Relay::open_node() {
  io::Node::Options made;
  made.transport = {.listen = options_.listen,
                    .tls = true,
                    .secret = secret_,
                    .fabric = "none",
                    .proxy = proxy_,
                    .link_memory = io::kLinkMemoryMin,
                    .payload_max = kPayloadMax,
                    .relay_limit = static_cast<std::uint64_t>(relay_.relay.limit * 1e6 / 8)};
  made.observer = {.note =
                       [this](base::Severity severity, const std::string& text) {
                         log_.event(severity == base::Severity::warning ? report::Level::warning
                                                                        : report::Level::info,
                                    "note", {{"text", std::string_view(text)}});
                       },
                   .report = [](const peer::Status&, const peer::Report&) {},
                   .remember = [](const std::vector<std::string>&) {},
                   .refused = [](const peer::Refused&) {}};
  made.signals = options_.signals;
  made.http = options_.http;
  made.port_mapper = choose_port_mapper(options_, log_);
  made.announced = options_.announce;
  made.serve = [this](const io::ControlRequest& request, const io::Node& asked) {
    return serve(request, asked);
  };
  auto opened = io::Node::create(identity_, std::move(made));
  if (!opened) return fail(opened.error());
  node_ = std::move(*opened);
  return report::write_peer_file(
      dir(), {.name = name(), .address = address(), .control = http_address(), .pid = getpid()});
}

io::NodeEnd Relay::run() {
  wire::MemberRecord self{.id = id(),
                          .name = name(),
                          .addresses = node_->addresses(),
                          .incarnation = static_cast<std::uint64_t>(time(nullptr)),
                          .has_replica = false};
  log_.event(report::Level::info, "started",
             {{"name", std::string_view(name())}, {"address", std::string_view(listens())}});
  io::RecordSigner signer(identity_);
  std::random_device entropy;
  const std::uint64_t seed = std::uint64_t{entropy()} << 32U | entropy();
  return node_->run(std::make_unique<peer::Core>(
      peer::relay_config(relay_.run, options_.join, relay_.relay), std::move(self), nothing_,
      peer::Resume{}, signer, base::Rng(seed)));
}

io::ControlReply Relay::serve(const io::ControlRequest& request, const io::Node& asked) const {
  const peer::Status status = asked.status();
  if (request.path != "/invite") return answer(request, status, extra_of(status, asked));
  std::optional<peer::Invite> invite;
  if (status.run != wire::RunId{}) {
    invite = {
        .addresses = peer::addresses_to_invite(asked.addresses(), addresses_of_others(status)),
        .run = status.run};
  }
  return {200, report::invite_json(invite, address(), secret_.has_value())};
}

}  // namespace starling::runtime
