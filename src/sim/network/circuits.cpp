#include "sim/network/circuits.hpp"

#include <algorithm>

#include "reach/limits.hpp"

namespace starling::sim {

void Circuits::join(Circuit circuit) {
  circuits_[++last_] = circuit;
  shared_.agenda.after(reach::kCircuitIdle, CircuitIdle{last_});
}

const Circuit* Circuits::find(std::uint64_t number) const {
  const auto found = circuits_.find(number);
  return found == circuits_.end() ? nullptr : &found->second;
}

void Circuits::carry(std::uint64_t number, std::size_t bytes) {
  if (const auto found = circuits_.find(number); found != circuits_.end()) {
    found->second.bytes += bytes;
  }
}

void Circuits::disconnect(std::uint64_t number) {
  const auto found = circuits_.find(number);
  if (found == circuits_.end()) return;
  found->second.connection.reset();
  end(number);
}

std::uint64_t Circuits::over(const Place& leg) const {
  for (const auto& [number, circuit] : circuits_) {
    if (std::ranges::find(circuit.legs, leg) != circuit.legs.end()) return number;
  }
  return 0;
}

std::uint64_t Circuits::dialed_by(const CircuitEnd& end) const {
  for (const auto& [number, circuit] : circuits_) {
    if (const CircuitEnd* dialer = end_of(circuit, 0); dialer != nullptr && *dialer == end) {
      return number;
    }
  }
  return 0;
}

const CircuitEnd* Circuits::end_of(const Circuit& circuit, int leg) const {
  const auto i = static_cast<std::size_t>(leg);
  const auto found = std::ranges::find_if(opened_, [&](const Half& half) {
    const Life& of = half.end.of;
    return half.leg == circuit.legs[i] && half.end.number == circuit.numbers[i] &&
           of.node != circuit.relay.node && shared_.nodes[of.node]->life == of.number;
  });
  return found == opened_.end() ? nullptr : &found->end;
}

std::size_t Circuits::relayed(const Node& node) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      circuits_, [&](const auto& entry) { return entry.second.relay == node.this_life(); }));
}

void Circuits::end(std::uint64_t number, base::Duration rest) {
  const Circuit circuit = circuits_.at(number);
  std::array<std::optional<CircuitEnd>, 2> ends;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (const auto* end = end_of(circuit, static_cast<int>(i)); end != nullptr) ends[i] = *end;
  }
  circuits_.erase(number);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (circuit.connection) {
      shared_.agenda.after(rest, CircuitBreaks{*circuit.connection, static_cast<int>(i)});
    }
    if (ends[i]) tell_over(*ends[i]);
  }
  if (shared_.find(circuit.relay) == nullptr) return;
  shared_.agenda.after(
      {}, CircuitOver{{circuit.relay, circuit.links[0], circuit.numbers[0]}, circuit.bytes});
}

void Circuits::end_by(const CircuitEnd& end) {
  for (const auto& [number, circuit] : circuits_) {
    for (std::size_t i = 0; i < circuit.legs.size(); ++i) {
      if (CircuitEnd{circuit.relay, circuit.links[i], circuit.numbers[i]} == end) {
        return this->end(number);
      }
    }
  }
  for (const auto& [number, circuit] : circuits_) {
    for (const int leg : {0, 1}) {
      if (const auto* half = end_of(circuit, leg); half != nullptr && *half == end) {
        return this->end(number);
      }
    }
  }
  tell_over(end);
}

void Circuits::drop_halves(const Place& leg) {
  const std::vector<Half> opened = opened_;
  for (const Half& half : opened) {
    if (half.leg == leg) tell_over(half.end);
  }
}

void Circuits::tell_over(const CircuitEnd& end, std::uint64_t bytes) {
  std::erase_if(opened_, [&](const Half& half) { return half.end == end; });
  shared_.agenda.after({}, CircuitOver{end, bytes});
}

void Circuits::happen(const CircuitOver& over) {
  Node* const node = shared_.find(over.end.of);
  if (node == nullptr) return;
  receiver_.give(*node, peer::CircuitEnded{over.end.link, over.end.number, over.bytes});
}

void Circuits::happen(const CircuitIdle& idle) {
  const Circuit* circuit = find(idle.circuit);
  if (circuit != nullptr && !circuit->connection) end(idle.circuit);
}

}  // namespace starling::sim
