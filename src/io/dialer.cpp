#include "io/dialer.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "io/tcp_dial.hpp"

namespace starling::io {

std::uint64_t Dialer::fail(std::string text) {
  failed_.push_back({++dials_, std::move(text)});
  return dials_;
}

// The parts that every dial needs.
base::Result<Dialer::Prepared> Dialer::prepare(const std::string& address, Role role) {
  using enum base::ErrorCode;
  if (stopped_) return base::fail(network, "this peer is shutting down");
  const auto target = parse_target(address);
  if (!target) return base::fail(target.error());
  const auto place = links_.free_place();
  if (!place) {
    return base::fail(network, "{}: there are {} links already, the limit", address,
                      config_.links_max);
  }
  auto session = make_session_(role);
  if (!session) return base::fail(session.error());
  return Prepared{*place, *target, std::move(*session)};
}

std::uint64_t Dialer::dial(const std::string& address, const base::IpPort& own) {
  auto prepared = prepare(address, Role::dialer);
  if (!prepared) return fail(prepared.error().text);
  const auto from = config_.one_port ? std::optional(own) : std::nullopt;
  auto dial = std::make_unique<TcpDial>(resolver_, prepared->target, config_.proxy,
                                        TcpDial::kStagger, from);
  links_.begin(prepared->place, ++dials_, address,
               std::make_unique<Bootstrap>(std::move(dial), std::move(prepared->session)));
  return dials_;
}

std::uint64_t Dialer::punch(const std::string& address, const base::PeerId& peer,
                            const base::IpPort& own) {
  auto prepared = prepare(address, role_toward(peer));
  if (!prepared) return fail(prepared.error().text);
  const auto to = numeric_address(prepared->target);
  if (!to) return fail(address + ": an address in numbers is needed here");
  auto connection = TcpStream::connect_from(loop_, own, *to);
  if (!connection) return fail(fmt::format("{}: {}", address, connection.error().text));
  LinkTable::Slot& slot = links_.begin(
      prepared->place, ++dials_, address,
      std::make_unique<Bootstrap>(std::move(*connection), std::move(prepared->session)));
  slot.expected = peer;
  slot.punches = *to;
  return dials_;
}

// The other end's packet came before this end had sent its own: then this is an ordinary
// connection, and the attempt from here is useless. Both ends know that they dial each other, so
// the roles in the session are the same.
bool Dialer::take_for_punch(std::unique_ptr<TcpStream>& tcp) {
  const base::IpPort from = tcp->remote_address();
  const auto found = std::ranges::find_if(links_.slots(), [&](const LinkTable::Slot& slot) {
    return slot.link && slot.punches == from && slot.link->state() == Link::State::connecting;
  });
  if (found == links_.slots().end()) return false;
  auto session = make_session_(role_toward(*found->expected));
  if (!session) return false;
  found->link->restart(std::make_unique<Bootstrap>(std::move(tcp), std::move(*session)));
  found->punches.reset();
  return true;
}

}  // namespace starling::io
