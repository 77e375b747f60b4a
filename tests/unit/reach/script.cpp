#include "script.hpp"

#include <fmt/core.h>

namespace starling::reach::testing {
namespace {

char letter_of(const base::PeerId& peer) {
  return peer.bytes[0] == 0 ? '-' : static_cast<char>(peer.bytes[0]);
}

}  // namespace

base::PeerId id(char letter) {
  base::PeerId peer;
  peer.bytes[0] = static_cast<std::uint8_t>(letter);
  return peer;
}

base::LinkId link(std::uint32_t number) { return {number, 1}; }

void Script::member(char letter, wire::Reachability reach, std::vector<std::string> addresses) {
  members_[id(letter)] = {.id = id(letter),
                          .name = std::string(1, letter),
                          .addresses = std::move(addresses),
                          .reach = reach};
}

void Script::linked(std::uint32_t number_of, char letter, const std::string& observed,
                    std::uint32_t via, bool asked, const std::string& address) {
  if (!members_.contains(id(letter))) member(letter);
  Outbox out;
  core.handle(LinkReady{.link = link(number_of),
                        .peer = id(letter),
                        .observed = observed,
                        .via = via == 0 ? base::LinkId{} : link(via),
                        .asked = asked,
                        .address = address},
              *this, now, out);
  static_cast<void>(take(out));
}

Lines Script::tell(const Event& event) {
  Outbox out;
  core.handle(event, *this, now, out);
  return take(out);
}

Lines Script::answered(const std::string& address, char by) {
  Outbox out;
  last_answer = core.answered(address, id(by), now, out);
  return take(out);
}

Lines Script::wait(base::Duration time) {
  const base::Time end = now + time;
  Outbox out;
  for (;;) {
    const auto due = core.next_deadline();
    if (!due || *due > end) break;
    now = std::max(now, *due);
    core.expire(*this, now, out);
  }
  now = end;
  return take(out);
}

const wire::MemberRecord* Script::find(const base::PeerId& peer) const {
  const auto found = members_.find(peer);
  return found == members_.end() ? nullptr : &found->second;
}

Lines Script::take(Outbox& out) {
  actions = std::move(out);
  Lines lines;
  for (const Action& action : actions) {
    std::string text = line(action);
    if (!text.empty()) lines.push_back(std::move(text));
  }
  base::Bounds bounds;
  core.add_bounds(bounds);
  core.add_timers(now, bounds);
  if (bounds.broken()) lines.push_back("over its bound: " + std::string(bounds.broken()->what));
  return lines;
}

std::string Script::line(const Action& action) {
  if (const auto* dial = std::get_if<Dial>(&action)) {
    return fmt::format("dial {} {}", dial->address,
                       dial->kind == DialKind::punch ? "punch" : "direct");
  }
  if (const auto* open = std::get_if<OpenCircuit>(&action)) {
    return fmt::format("open {} with {}{}", open->link.slot, letter_of(open->peer),
                       open->dialer ? ", begins" : "");
  }
  if (const auto* relay = std::get_if<Relay>(&action)) {
    return fmt::format("relay {} and {}", relay->a.slot, relay->b.slot);
  }
  if (const auto* end = std::get_if<EndCircuit>(&action)) {
    return fmt::format("end circuit on {}", end->link.slot);
  }
  if (const auto* hold = std::get_if<Hold>(&action)) {
    return fmt::format("{} {}", hold->on ? "hold" : "free", hold->link.slot);
  }
  if (const auto* told = std::get_if<Tell>(&action)) {
    return fmt::format("tell {}{}{}", wire::to_string(told->reach), told->outer.empty() ? "" : " ",
                       told->outer);
  }
  if (const auto* failed = std::get_if<Failed>(&action)) {
    return fmt::format("failed {}{}", failed->address, failed->no_route ? ", no route" : "");
  }
  const auto* send = std::get_if<Send>(&action);
  if (send == nullptr) return {};  // a notice
  const std::string to = fmt::format("send {} ", send->link.slot);
  if (const auto* ask = std::get_if<wire::DialBack>(&send->message)) {
    nonce = ask->nonce;
    return to + fmt::format("dial back {}", ask->port);
  }
  if (const auto* told = std::get_if<wire::DialedBack>(&send->message)) {
    constexpr const char* kNames[] = {"none", "reached", "failed", "busy"};
    return to + kNames[static_cast<std::size_t>(told->outcome)] + " " + told->observed;
  }
  if (const auto* message = std::get_if<wire::Introduce>(&send->message)) {
    constexpr const char* kNames[] = {"none", "ask", "answer", "go", "absent"};
    nonce = message->nonce;
    return to + fmt::format("{} {}{}", kNames[static_cast<std::size_t>(message->kind)],
                            letter_of(message->other),
                            message->passed_on ? " from " + message->observed : "");
  }
  const auto& circuit = std::get<wire::Circuit>(send->message);
  constexpr const char* kNames[] = {"none", "circuit", "offer", "accept", "refuse"};
  number = circuit.number;
  std::string text = to + kNames[static_cast<std::size_t>(circuit.kind)];
  if (circuit.other != base::PeerId{}) text += fmt::format(" {}", letter_of(circuit.other));
  if (circuit.kind == wire::CircuitKind::refuse) {
    text += fmt::format(": {}", wire::to_string(circuit.reason));
  }
  return text;
}

}  // namespace starling::reach::testing
