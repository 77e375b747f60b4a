#include "io/mapping_reports.hpp"

#include <utility>

#include <fmt/core.h>

namespace starling::io {

base::Status MappingReports::take(base::ByteView bytes, base::Time now) {
  for (const char c : base::text_of(bytes)) {
    if (c != '\n') {
      if (unread_.size() == router::kLineMax) {
        return base::fail(base::ErrorCode::protocol, "it says a line that is too long");
      }
      unread_ += c;
      continue;
    }
    if (now - minute_ >= std::chrono::minutes(1)) {
      minute_ = now;
      in_minute_ = 0;
    }
    if (++in_minute_ > kReportsPerMinute) {
      return base::fail(base::ErrorCode::protocol, "it says too much");
    }
    const auto line = router::read_line(std::exchange(unread_, {}));
    if (!line) return base::fail(line.error().in("it says"));
    take_line(*line, now);
  }
  return {};
}

void MappingReports::take_line(const router::Line& line, base::Time now) {
  if (const auto* gone = std::get_if<router::Unmapped>(&line)) {
    State& state = gone->v4 ? v4_ : v6_;
    const bool had = state.mapping.has_value();
    state.mapping.reset();
    return note(state, fmt::format("{} for {}: {}",
                                   had ? "the router maps this peer's port no more"
                                       : "no router maps this peer's port",
                                   gone->v4 ? "IPv4" : "IPv6", gone->why));
  }
  const auto& mapping = std::get<router::Mapping>(line);
  State& state = mapping.outer.ip.is_v4() ? v4_ : v6_;
  state.mapping = mapping;
  state.until = now + mapping.lifetime + kMappingSlack;
  const std::string outer = to_string(mapping.outer);
  note(state,
       mapping.outer.ip.is_global()
           ? fmt::format("the router lets others in at {} (by {})", outer,
                         router::to_string(mapping.protocol))
           : fmt::format("the router maps {} to this peer (by {}), which is not an address of the "
                         "internet: it is behind another router, or lies; others are not told",
                         outer, router::to_string(mapping.protocol)));
}

void MappingReports::note(State& state, std::string text) {
  if (text == state.said) return;
  state.said = text;
  notes_.push_back(std::move(text));
}

void MappingReports::start_over() {
  unread_.clear();
  in_minute_ = 0;
}

void MappingReports::expire(base::Time now) {
  for (State* state : {&v4_, &v6_}) {
    if (!state->mapping || now < state->until) continue;
    state->mapping.reset();
    note(*state, "the mapping of this peer's port has ended without a renewal");
  }
}

std::optional<base::Time> MappingReports::next_deadline() const {
  base::Earliest next;
  for (const State* state : {&v4_, &v6_}) {
    if (state->mapping) next.add(state->until);
  }
  return next.value();
}

std::vector<std::string> MappingReports::addresses() const {
  std::vector<std::string> global;
  for (const base::IpPort& outer : mapped()) {
    if (outer.ip.is_global()) global.push_back(to_string(outer));
  }
  return global;
}

std::vector<base::IpPort> MappingReports::mapped() const {
  std::vector<base::IpPort> all;
  for (const State* state : {&v4_, &v6_}) {
    if (state->mapping) all.push_back(state->mapping->outer);
  }
  return all;
}

std::string MappingReports::said() const {
  return v4_.said + (v4_.said.empty() || v6_.said.empty() ? "" : "; ") + v6_.said;
}

}  // namespace starling::io
