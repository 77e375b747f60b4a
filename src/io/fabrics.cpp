#include "io/fabrics.hpp"

#include <algorithm>
#include <utility>

#include <fmt/core.h>
#include <uv.h>

#include "base/assert.hpp"
#include "base/endian.hpp"
#include "base/printable.hpp"
#include "io/ucx/interface_addresses.hpp"
#include "io/ucx/loader.hpp"
#include "runfile/run_file.hpp"

namespace starling::io {
namespace {

constexpr std::size_t kVersionSize = 3 * sizeof(std::uint16_t);
constexpr std::size_t kProofAt = kVersionSize + 1;
constexpr std::size_t kAddressesAt = kProofAt + ucx::MachineProof::kSize;
constexpr std::size_t kAddressSize = 17;
constexpr std::size_t kNameAt = kAddressesAt + 2 * kAddressSize;
constexpr std::size_t kNameMax = 64;
constexpr std::size_t kPortAt = sizeof(std::uint64_t);
constexpr std::size_t kDoorVersionAt = kPortAt + sizeof(std::uint16_t);
constexpr std::size_t kDoorSize = kDoorVersionAt + kVersionSize;

constexpr char kLoading[] = "UCX is being loaded";
constexpr char kNotConnected[] = "UCX is not connected yet";

void append(base::Bytes& to, const ucx::Version& version) {
  for (const unsigned part : {version.major, version.minor, version.release}) {
    base::append_little(to, static_cast<std::uint16_t>(part));
  }
}

ucx::Version version_at(base::ByteView bytes, std::size_t at) {
  const auto parts = base::load_little<std::array<std::uint16_t, 3>>(bytes, at);
  return {parts[0], parts[1], parts[2]};
}

/// The form of an address in an offer.
base::Bytes address_bytes(const base::Ip& ip) {
  base::Bytes bytes(kAddressSize);
  bytes[0] = std::byte{ip.is_v6() ? std::uint8_t{1} : std::uint8_t{0}};
  std::ranges::copy(std::as_bytes(ip.bytes()), bytes.begin() + 1);
  return bytes;
}

/// Whether both ends see the same two addresses: if one is translated on the way, everybody behind
/// the translator shares it.
bool sees_alike(const Route& route, base::ByteView offered) {
  return std::ranges::equal(address_bytes(route.remote.ip), offered.first(kAddressSize)) &&
         std::ranges::equal(address_bytes(route.local.ip), offered.subspan(kAddressSize));
}

tl::unexpected<base::Error> breach(const char* text) {
  return base::fail(base::ErrorCode::protocol, "{}", text);
}

}  // namespace

Fabrics::Fabrics(Loop& loop, FabricKeys keys, bool tls, bool closed)
    : loop_(loop), keys_(std::move(keys)), tls_(tls), closed_(closed) {
  if (keys_.fabric == runfile::kFabricNone || !tls) return;
  if (auto machine = ucx::MachineProof::open()) machine_ = *machine;
  // If this is known at once, the other ends are told, and need not wait for a connection.
  if (const auto file = ucx::module_to_load(); !file) why_not_ = file.error().text;
}

// All at once, or each would wait in turn.
Fabrics::~Fabrics() { close(); }

// --- talking ---

/// The text that an end signs: bytes of only this session, and the prover's role.
base::Bytes Fabrics::proof_text(const Link& link, Role prover) const {
  base::Bytes text = link.session().shared_bytes();
  text.push_back(static_cast<std::byte>(prover));
  return text;
}

void Fabrics::begin(Link& link, Talk& talk) {
  if (std::exchange(talk.offered, true)) return;
  base::Bytes offer;
  append(offer, open_.empty() ? ucx::Version{} : open_.front().fabric->version());
  const bool able = why_not_.empty() && link.route();
  offer.push_back(std::byte{able ? std::uint8_t{0} : std::uint8_t{1}});
  ucx::MachineProof::Bytes proof{};
  if (machine_) proof = machine_->of(proof_text(link, link.role()));
  base::append_little(offer, proof);
  const Route route = link.route().value_or(Route{});
  for (const base::Ip& end : {route.local.ip, route.remote.ip}) {
    base::append(offer, address_bytes(end));
  }
  base::append(offer, base::bytes_of(keys_.fabric.data(), keys_.fabric.size()));
  talk.reason = "the other end has not said yet what it can do";
  link.put(CellType::offer, offer);
}

base::Status Fabrics::on_cell(Link& link, Talk& talk, CellType type, base::ByteView cell) {
  if (type == CellType::door) return on_door(link, talk, cell);
  if (std::exchange(talk.heard, true)) return breach("the other end offers fabrics twice");
  if (cell.size() <= kNameAt || cell.size() > kNameAt + kNameMax) {
    return breach("the other end's offer of fabrics has a wrong size");
  }
  begin(link, talk);
  const Role other = link.role() == Role::dialer ? Role::listener : Role::dialer;
  ucx::FabricFacts facts{.encrypted = tls_, .closed_swarm = closed_};
  facts.here.fabric = keys_.fabric;
  facts.here.why_not = why_not_;
  if (!open_.empty()) facts.here.version = open_.front().fabric->version();
  facts.there.fabric = base::printable(base::text_of(cell.subspan(kNameAt)), kNameMax);
  facts.there.version = version_at(cell, 0);
  if (cell[kVersionSize] != std::byte{}) facts.there.why_not = "it cannot use UCX";
  facts.same_machine =
      machine_ &&
      machine_->accepts(proof_text(link, other), cell.subspan(kProofAt, ucx::MachineProof::kSize));
  if (!link.route()) {
    talk.reason = "the link goes through a relay or a proxy";
    return {};
  }
  if (!facts.same_machine &&
      !sees_alike(*link.route(), cell.subspan(kAddressesAt, 2 * kAddressSize))) {
    talk.reason = "addresses are translated on the way (NAT)";
    return {};
  }
  decide(link, talk, facts);
  return {};
}

void Fabrics::decide(const Link& link, Talk& talk, const ucx::FabricFacts& known) {
  ucx::FabricFacts facts = known;
  // Without interfaces, so a link-local address matches no interface here, and so no fabric.
  const base::Ip here = link.route()->local.ip.on_interface(0);
  const base::Ip there = link.route()->remote.ip.on_interface(0);
  const auto interfaces = ucx::interface_addresses();
  const auto subnet = ucx::shared_private_subnet(interfaces, here, there);
  facts.same_subnet = subnet.has_value();
  const ucx::FabricChoice choice = choose_fabric(facts);
  talk.reason = choice.why_not;
  ucx::FabricConfig on{.device = {}, .address = here, .ports = keys_.ports};
  switch (choice.kind) {
    case ucx::FabricKind::none:
      return;
    case ucx::FabricKind::machine:
      on.device = "lo";
      on.address = base::Ip::loopback();
      talk.other = on.address;
      break;
    case ucx::FabricKind::subnet:
    case ucx::FabricKind::named: {
      const auto own = std::ranges::find(interfaces, here, &ucx::InterfaceAddress::address);
      if (own == interfaces.end()) {
        talk.reason = "no network interface has the address that the link came over";
        return;
      }
      on.device = own->device;
      talk.other = there;
      break;
    }
  }
  talk.on = on;
  talk.reason = kNotConnected;
  const bool is_there = load();
  if (link.role() == Role::dialer) return;  // waits for the listener's door
  talk.waits = true;
  if (!is_there) talk.reason = kLoading;
}

// --- loading ---

// Starts loading when UCX is first needed, and says whether it is done. Nothing stands still
// meanwhile.
bool Fabrics::load() {
  if (loaded_ || loading_) return loaded_;
  loading_.emplace(loop_, [this] {
    loaded_ = true;
    loading_.reset();
  });
  return false;
}

bool Fabrics::go_on(Link& link, Talk& talk, base::Time now, const MakeSession& make_session) {
  if (!talk.waits || !load()) return false;
  talk.waits = false;
  talk.reason = kNotConnected;
  if (link.role() == Role::listener) {
    listen(link, talk, now);
  } else {
    connect(link, talk, now, make_session);
  }
  return true;
}

// --- connecting ---

// The listener's part: let the other end in, and tell it where.
void Fabrics::listen(Link& link, Talk& talk, base::Time now) {
  const auto fabric = let_in(talk);
  if (!fabric) {
    talk.on.reset();
    talk.reason = fabric.error().text;
    return;
  }
  ASSERT(uv_random(nullptr, nullptr, &talk.token, sizeof talk.token, 0, nullptr) == 0,
         "the system has no random numbers");
  if (talk.token == 0) talk.token = 1;
  talk.token_until = now + kPatience;
  base::Bytes door;
  base::append_little(door, talk.token);
  base::append_little(door, (*fabric)->port());
  append(door, (*fabric)->version());
  link.put(CellType::door, door);
}

base::Status Fabrics::on_door(Link& link, Talk& talk, base::ByteView cell) {
  if (cell.size() != kDoorSize || link.role() != Role::dialer || !talk.heard) {
    return breach("the other end says where UCX is, unasked or wrongly");
  }
  if (!talk.on || talk.let_in) return {};  // one attempt is enough
  talk.door = {.token = base::load_little<std::uint64_t>(cell),
               .port = base::load_little<std::uint16_t>(cell, kPortAt),
               .version = version_at(cell, kDoorVersionAt)};
  if (talk.door.port == 0) return breach("the other end says that UCX is at port 0");
  talk.waits = true;
  if (!load()) talk.reason = kLoading;
  return {};
}

// The dialer's part. It connects only to the address that the link goes to, or to this machine's
// own, regardless of the other end's words.
void Fabrics::connect(Link& link, Talk& talk, base::Time now, const MakeSession& make_session) {
  const auto give_up = [&](const std::string& why) { on_lost(talk, why, now); };
  const auto fabric = let_in(talk);
  if (!fabric) return give_up(fabric.error().text);
  if (!ucx::compatible((*fabric)->version(), talk.door.version)) {
    return give_up(fmt::format("UCX {} here and {} at the other end do not link",
                               to_string((*fabric)->version()), to_string(talk.door.version)));
  }
  auto session = make_session(Role::dialer);
  if (!session) return give_up(session.error().text);
  auto carrier = (*fabric)->connect(talk.other, talk.door.port);
  if (!carrier) return give_up(carrier.error().text);
  link.add(std::make_unique<Bootstrap>(CarrierKind::ucx, std::move(*carrier), std::move(*session),
                                       Preamble{SessionUse::carrier, talk.door.token}),
           now + kPatience);
}

void Fabrics::on_lost(Talk& talk, const std::string& why, base::Time now) {
  talk.reason = why;
  forget(talk, now);
}

// --- fabrics ---

Fabrics::Open* Fabrics::find(const ucx::FabricConfig& config) {
  const auto found = std::ranges::find_if(open_, [&](const Open& open) {
    return open.fabric->config().device == config.device &&
           open.fabric->config().address == config.address;
  });
  return found == open_.end() ? nullptr : &*found;
}

base::Result<ucx::Fabric*> Fabrics::let_in(Talk& talk) {
  Open* open = find(*talk.on);
  if (open == nullptr) {
    if (open_.size() >= kFabricsMax) {
      return base::fail(base::ErrorCode::network, "there are {} fabrics already, the limit",
                        kFabricsMax);
    }
    auto fabric = ucx::Fabric::start(loop_, *talk.on);
    if (!fabric) {
      why_not_ = fabric.error().text;
      return base::fail(fabric.error());
    }
    open_.push_back({.fabric = std::move(*fabric), .let_in = {}});
    open = &open_.back();
  }
  open->let_in.push_back(talk.other);
  open->unused_since = base::Time::max();
  if (auto status = renew_filter(*open); !status) {
    open->let_in.pop_back();
    return base::fail(status.error());
  }
  talk.let_in = true;
  return open->fabric.get();
}

base::Status Fabrics::renew_filter(Open& open) {
  std::vector<base::Ip> members = open.let_in;
  std::ranges::sort(members);
  members.erase(std::unique(members.begin(), members.end()), members.end());
  return open.fabric->allow(members);
}

void Fabrics::forget(Talk& talk, base::Time now) {
  talk.token = 0;
  talk.waits = false;
  const auto on = std::exchange(talk.on, std::nullopt);
  // Other links may need the same address.
  if (!std::exchange(talk.let_in, false)) return;
  Open* const open = find(*on);
  ASSERT(open != nullptr, "a fabric that is used is kept");
  open->let_in.erase(std::ranges::find(open->let_in, talk.other));
  if (open->let_in.empty()) open->unused_since = now;
  if (std::ranges::count(open->let_in, talk.other) > 0) return;
  static_cast<void>(renew_filter(*open));
  open->fabric->shut(talk.other);
}

bool Fabrics::progress() {
  bool worked = false;
  for (Open& open : open_) worked = open.fabric->progress() || worked;
  return worked;
}

bool Fabrics::arm() {
  return std::ranges::all_of(open_, [](Open& open) { return open.fabric->arm(); });
}

std::vector<std::unique_ptr<Carrier>> Fabrics::take_incoming(std::size_t max) {
  std::vector<std::unique_ptr<Carrier>> all;
  for (Open& open : open_) {
    for (auto& carrier : open.fabric->take_incoming(max - all.size())) {
      all.push_back(std::move(carrier));
    }
  }
  return all;
}

base::Time Fabrics::drop_unused(base::Time now) {
  base::Time next = base::Time::max();
  std::erase_if(open_, [&](const Open& open) {
    if (open.unused_since == base::Time::max()) return false;
    if (now - open.unused_since >= kUnusedMax) return true;
    next = std::min(next, open.unused_since + kUnusedMax);
    return false;
  });
  return next;
}

base::Time Fabrics::close() {
  base::Time quiet_at{};
  for (Open& open : open_) {
    open.let_in.clear();
    static_cast<void>(renew_filter(open));
    quiet_at = std::max(quiet_at, open.fabric->quiet_at());
  }
  return quiet_at;
}

}  // namespace starling::io
