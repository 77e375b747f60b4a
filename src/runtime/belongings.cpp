#include "runtime/belongings.hpp"

#include <cstdint>
#include <ctime>
#include <random>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "io/record_signer.hpp"
#include "report/peer_file.hpp"

namespace starling::runtime {

using base::fail;

base::Result<Belongings> take_belongings(const std::string& run, const std::string& secret,
                                         const Options& options) {
  if (auto checked = check(options); !checked) return fail(checked.error());
  auto proxy = io::choose_proxy(options.proxy);
  if (!proxy) return fail(proxy.error());
  auto place = take_place(run, options.name, options.dir);
  if (!place) return fail(place.error());
  const auto loaded = io::Secret::load_if_any(secret);
  if (!loaded) return fail(loaded.error());
  auto identity = io::Identity::load_or_create(place->dir);
  if (!identity) return fail(identity.error());
  auto log = report::Log::open(place->dir, {.quiet = options.quiet});
  if (!log) return fail(log.error());
  return Belongings{std::move(*place), *loaded, std::move(*proxy), std::move(*identity),
                    std::move(*log)};
}

io::Node::Options node_options(const Options& options, report::Log& log) {
  io::Node::Options made;
  made.observer.note = [&log](base::Severity severity, const std::string& text) {
    log.event(severity == base::Severity::warning ? report::Level::warning : report::Level::info,
              "note", {{"text", std::string_view(text)}});
  };
  made.signals = options.signals;
  made.http = options.http;
  made.port_mapper = choose_port_mapper(options, log);
  made.announced = options.announce;
  return made;
}

base::Result<std::unique_ptr<io::Node>> open_node(const std::string& dir, const std::string& name,
                                                  const io::Identity& identity,
                                                  io::Node::Options options) {
  auto node = io::Node::create(identity, std::move(options));
  if (!node) return node;
  const auto written = report::write_peer_file(dir, {.name = name,
                                                     .address = (*node)->addresses().front(),
                                                     .control = (*node)->control_address(),
                                                     .pid = getpid()});
  if (!written) return fail(written.error());
  return node;
}

io::NodeEnd run_node(io::Node& node, const std::string& name, const io::Identity& identity,
                     report::Log& log, const MakeCore& make_core) {
  wire::MemberRecord self{.id = identity.id(),
                          .name = name,
                          .addresses = node.addresses(),
                          // A restarted peer's record must be newer than the one that others have.
                          .incarnation = static_cast<std::uint64_t>(time(nullptr))};
  log.event(report::Level::info, "started",
            {{"name", std::string_view(name)}, {"address", std::string_view(node.address())}});
  io::RecordSigner signer(identity);
  // Another number in each life: others tell lives apart by the drawn numbers.
  std::random_device entropy;
  const std::uint64_t seed = std::uint64_t{entropy()} << 32U | entropy();
  return node.run(make_core(std::move(self), signer, base::Rng(seed)));
}

}  // namespace starling::runtime
