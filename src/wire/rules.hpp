// Checks whether a message's values obey the rules of its fields. Memory is bounded before: a
// frame's metadata has at most kMetadataMax bytes.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>

#include <fmt/format.h>

#include "base/result.hpp"
#include "wire/fields.hpp"

namespace starling::wire {

template <class Message>
[[nodiscard]] base::Status check(const Message& message);

/// The name of a message, or of a part of one, in errors.
constexpr const char* title_of(const MemberRecord&) { return "a member record"; }
constexpr const char* title_of(const Claim&) { return "a claim"; }
constexpr const char* title_of(const Voucher&) { return "a voucher"; }
constexpr const char* title_of(const Progress&) { return "a progress entry"; }
constexpr const char* title_of(const TableEntry&) { return "a table entry"; }
constexpr const char* title_of(const Hello&) { return "a hello"; }
constexpr const char* title_of(const Refuse&) { return "a refusal"; }
constexpr const char* title_of(const RunFileRequest&) { return "a request for the run file"; }
constexpr const char* title_of(const RunFileReply&) { return "a run file"; }
constexpr const char* title_of(const Neighbour&) { return "a neighbour message"; }
constexpr const char* title_of(const Gossip&) { return "a gossip message"; }
constexpr const char* title_of(const Heartbeat&) { return "a heartbeat"; }
constexpr const char* title_of(const Reconcile&) { return "a comparison of tables"; }
constexpr const char* title_of(const LinkOpen&) { return "a link opening"; }
constexpr const char* title_of(const Delta&) { return "a delta"; }
constexpr const char* title_of(const Settle&) { return "a place in a tree"; }
constexpr const char* title_of(const Keyframe&) { return "a keyframe"; }
constexpr const char* title_of(const Reduce&) { return "a piece of a gradient"; }
constexpr const char* title_of(const ReduceReceived&) { return "a count of pieces"; }
constexpr const char* title_of(const Bye&) { return "a farewell"; }
constexpr const char* title_of(const DialBack&) { return "a request to dial back"; }
constexpr const char* title_of(const DialedBack&) { return "a dial back's outcome"; }
constexpr const char* title_of(const Introduce&) { return "an introduction"; }
constexpr const char* title_of(const Circuit&) { return "a message about a circuit"; }

/// Says how a value breaks its rule; nothing if it does not.
using Problem = std::optional<std::string>;

template <class Value>
Problem problem_of(const Value&, Any) {
  return std::nullopt;
}
inline Problem problem_of(bool, SetByDefault) { return std::nullopt; }
inline Problem problem_of(const base::Bytes&, Payload) { return std::nullopt; }
inline Problem problem_of(const base::Bytes&, Tail) { return std::nullopt; }

template <class T>
Problem problem_of(const T& value, const Within<T>& rule) {
  if (value >= rule.least && value <= rule.most) return std::nullopt;
  if constexpr (std::is_enum_v<T>) {
    return "is of a kind that is not allowed here";
  } else {
    return fmt::format("is not a number from {} to {}", rule.least, rule.most);
  }
}

template <class Enum>
Problem problem_of(Enum value, Known) {
  if (is_known(value)) return std::nullopt;
  return "is not known";
}

template <class Enum>
Problem problem_of(Enum value, Chosen) {
  if (is_known(value) && value != Enum::none) return std::nullopt;
  return "is not known";
}

inline Problem problem_of(const std::string& value, const Text& rule) {
  if (value.size() <= rule.most) return std::nullopt;
  return fmt::format("has over {} bytes", rule.most);
}

inline Problem problem_of(const std::string& value, Address) {
  const auto is_visible = [](char character) { return character > ' ' && character <= '~'; };
  if (value.size() > kAddressMax) return fmt::format("has over {} bytes", kAddressMax);
  if (std::ranges::all_of(value, is_visible)) return std::nullopt;
  return "has bytes that are not visible ASCII";
}

template <class Element>
Problem problem_of(const std::vector<Element>& list, const Few& rule) {
  if (list.size() <= rule.most) return std::nullopt;
  return fmt::format("has over {} elements", rule.most);
}

/// Rules about more than one field.
template <class Message>
base::Status check_together(const Message&) {
  return {};
}

inline base::Status check_together(const Reconcile& reconcile) {
  const std::size_t buckets = std::size_t{1} << reconcile.bits;
  if (!reconcile.hashes.empty() && reconcile.hashes.size() != buckets) {
    return base::fail(base::ErrorCode::protocol,
                      "a comparison of tables has hashes of other than its {} buckets", buckets);
  }
  for (const std::uint16_t bucket : reconcile.buckets) {
    if (bucket < buckets) continue;
    return base::fail(base::ErrorCode::protocol, "a table of {} buckets has no bucket {}", buckets,
                      bucket);
  }
  return {};
}

/// Goes through the fields of a message, and through those of its parts, up to the first problem.
class RuleCheck {
 public:
  explicit RuleCheck(const char* title) : title_(title) {}

  template <class Value, class Rule>
  void operator()(const char* name, const Value& value, const Rule& rule) {
    if (!status_) return;
    if (const Problem problem = problem_of(value, rule)) return fail(name, *problem);
    check_parts(name, value);
  }

  [[nodiscard]] base::Status status() && { return std::move(status_); }

 private:
  template <class Value>
  void check_parts(const char*, const Value&) {}
  void check_parts(const char*, const MemberRecord& record) { status_ = check(record); }

  void check_parts(const char* name, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) (*this)(name, text, Address{});
  }

  template <class Part>
  void check_parts(const char*, const std::vector<Part>& parts) requires
      requires(const Part& part) {
    title_of(part);
  }
  {
    for (const Part& part : parts) {
      if (status_) status_ = check(part);
    }
  }

  void fail(const char* name, const std::string& problem) {
    status_ = base::fail(base::ErrorCode::protocol, "{}: {} {}", title_, name, problem);
  }

  const char* title_;
  base::Status status_{};
};

/// Error (protocol): a value that a rule of wire/fields.hpp does not allow.
template <class Message>
base::Status check(const Message& message) {
  RuleCheck rules(title_of(message));
  fields(message, rules);
  base::Status status = std::move(rules).status();
  return status ? check_together(message) : status;
}

}  // namespace starling::wire
