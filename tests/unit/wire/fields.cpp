#include "wire/fields.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/bfloat16.hpp"
#include "base/rng.hpp"
#include "frame_of.hpp"
#include "frames_generated.h"
#include "wire/rules.hpp"

namespace wire = starling::wire;
namespace base = starling::base;
using starling::wire::frame_of;
namespace fb = starling::wire::fb;

namespace {

/// Each message and each part of one.
using All =
    std::tuple<wire::MemberRecord, wire::Hello, wire::Refuse, wire::RunFileRequest,
               wire::RunFileReply, wire::Neighbour, wire::Claim, wire::Gossip, wire::Voucher,
               wire::Progress, wire::Heartbeat, wire::TableEntry, wire::Reconcile, wire::LinkOpen,
               wire::Delta, wire::Keyframe, wire::Settle, wire::Reduce, wire::ReduceReceived,
               wire::Bye, wire::DialBack, wire::DialedBack, wire::Introduce, wire::Circuit>;

void for_each_type(auto&& use) {
  std::apply([&](const auto&... one) { (use(one), ...); }, All{});
}

/// Converts to the type of the member that it initializes.
struct Anything {
  template <class T>
  operator T() const;
};

/// The number of members of an aggregate: the most with which it can be initialized.
template <class Aggregate, class... Members>
consteval std::size_t members_of() {
  if constexpr (requires { Aggregate{Members{}..., Anything{}}; }) {
    return members_of<Aggregate, Members..., Anything>();
  } else {
    return sizeof...(Members);
  }
}

std::vector<std::string> names_in_table(const auto& message) {
  std::vector<std::string> names;
  wire::fields(message, [&]<class Rule>(const char* name, const auto&, const Rule&) {
    if constexpr (!std::is_same_v<Rule, wire::Payload>) names.emplace_back(name);
  });
  return names;
}

std::vector<std::string> names_in(const flatbuffers::TypeTable* table) {
  return {table->names, table->names + table->num_elems};
}

// --- random values within the rules ---

template <class Message>
Message random_message(base::Rng& rng);

std::string random_text(base::Rng& rng, std::size_t most) {
  std::string text(rng.below(most + 1), ' ');
  for (char& character : text) character = static_cast<char>('!' + rng.below(90));
  return text;
}

template <class T>
T random_number(base::Rng& rng) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(std::ldexp(1.0, static_cast<int>(rng.below(20))));  // whole as bfloat16
  } else if constexpr (std::is_same_v<T, bool>) {
    return rng.below(2) == 1;
  } else {
    return static_cast<T>(rng() >> rng.below(64));
  }
}

class Filler {
 public:
  explicit Filler(base::Rng& rng) : rng_(rng) {}

  template <class Value, class Rule>
  void operator()(const char*, Value& value, const Rule& rule) {
    do {
      value = some(value, rule);
    } while (wire::problem_of(value, rule));
  }

 private:
  template <class T>
  T some(const T&, const wire::Within<T>& rule) {
    if constexpr (std::is_enum_v<T>) {
      return static_cast<T>(rng_.below(static_cast<std::uint64_t>(rule.most) + 1));
    } else {
      return rng_.below(2) == 0 ? rule.least : rule.most;
    }
  }
  template <class T, class Rule>
  T some(const T&, const Rule&) requires std::is_arithmetic_v<T> {
    return random_number<T>(rng_);
  }
  template <class T, class Rule>
  T some(const T&, const Rule&) requires std::is_enum_v<T> {
    return static_cast<T>(rng_.below(8));
  }
  template <class Tag>
  base::Counter<Tag> some(const base::Counter<Tag>&, wire::Any) {
    return {rng_() >> rng_.below(64)};
  }
  template <std::size_t N>
  std::array<std::uint8_t, N> some(std::array<std::uint8_t, N> bytes, wire::Any) {
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(rng_());
    return bytes;
  }
  base::PeerId some(const base::PeerId& id, wire::Any rule) { return {some(id.bytes, rule)}; }
  wire::RunId some(const wire::RunId& run, wire::Any rule) { return {some(run.bytes, rule)}; }
  std::optional<std::uint64_t> some(const std::optional<std::uint64_t>&, wire::Any) {
    return rng_.below(2) == 0 ? std::nullopt : std::optional(rng_());
  }
  std::optional<wire::Voucher> some(const std::optional<wire::Voucher>&, wire::Any) {
    if (rng_.below(2) == 0) return std::nullopt;
    return random_message<wire::Voucher>(rng_);
  }
  std::string some(const std::string&, const wire::Text& rule) {
    return random_text(rng_, std::min<std::size_t>(rule.most, 100));
  }
  std::string some(const std::string&, wire::Address) { return random_text(rng_, 40); }
  wire::MemberRecord some(const wire::MemberRecord&, wire::Any) {
    return random_message<wire::MemberRecord>(rng_);
  }
  template <class Rule>
  base::Bytes some(const base::Bytes&, const Rule&) {
    return base::Bytes(4 * rng_.below(5), static_cast<std::byte>(rng_()));
  }
  template <class Element>
  std::vector<Element> some(std::vector<Element> list, const wire::Few& rule) {
    list.resize(rng_.below(std::min<std::size_t>(rule.most, 5) + 1));
    for (Element& element : list) element = some_element(element);
    return list;
  }
  template <class Element>
  Element some_element(const Element& element) {
    if constexpr (std::is_arithmetic_v<Element>) {
      return random_number<Element>(rng_);
    } else if constexpr (std::is_same_v<Element, std::string>) {
      return some(element, wire::Address{});
    } else {
      return random_message<Element>(rng_);
    }
  }

  base::Rng& rng_;
};

template <class Message>
Message random_message(base::Rng& rng) {
  Message message;
  do {
    wire::fields(message, Filler(rng));
  } while (!wire::check_together(message));
  if constexpr (std::is_same_v<Message, wire::Progress>) {
    message.report = true;                                               // or half is not sent
    message.age_ms = 50 * static_cast<std::uint32_t>(rng.below(1'000));  // in steps of 50 ms
  }
  if constexpr (std::is_same_v<Message, wire::Delta>) {
    if (message.turn != wire::Turn::up) message.gathered = 0;  // as it is not sent
    if (message.radius) message.radius = base::widen(base::narrow_to_even(*message.radius));
  }
  return message;
}

// --- values as text, to compare them ---

template <class Message>
std::string text_of(const Message& message);

std::string text_of_bytes(base::ByteView bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<int>(byte));
  return text;
}

template <class Value>
std::string value_text(const Value& value) {
  if constexpr (requires { value.has_value(); }) {
    return value ? value_text(*value) : "none";
  } else if constexpr (std::is_same_v<Value, std::string>) {
    return value;
  } else if constexpr (requires {
                         value.begin();
                         value[0].begin();
                       }) {
    std::string text;
    for (const auto& element : value) text += element + ",";
    return text;
  } else if constexpr (requires { wire::title_of(value); }) {
    return text_of(value);
  } else if constexpr (requires { wire::title_of(value[0]); }) {
    std::string text;
    for (const auto& element : value) text += "{" + text_of(element) + "}";
    return text;
  } else if constexpr (requires { value.data(); }) {
    return text_of_bytes(std::as_bytes(std::span(value)));
  } else {
    return text_of_bytes(std::as_bytes(std::span(&value, 1)));
  }
}

template <class Message>
std::string text_of(const Message& message) {
  std::string text;
  wire::fields(message, [&](const char* name, const auto& value, const auto&) {
    text += fmt::format("{}={} ", name, value_text(value));
  });
  return text;
}

template <class Message>
constexpr bool kIsMessage = requires(Message message) {
  wire::encode(std::move(message));
};

template <class Message>
Message sent(const Message& message) {
  return std::get<Message>(wire::decode(frame_of(wire::encode(message))).value().value());
}

// --- values against the rules ---

template <class T>
void beyond(T& value, const wire::Within<T>& rule) {
  value = static_cast<T>(static_cast<std::uint64_t>(rule.most) + 1);
  if constexpr (std::is_floating_point_v<T>) value = std::nan("");
  if constexpr (std::is_same_v<T, std::uint16_t>) value = 0;
}
void beyond(auto& value, wire::Known) { value = static_cast<std::decay_t<decltype(value)>>(99); }
void beyond(auto& value, wire::Chosen) { value = std::decay_t<decltype(value)>::none; }
void beyond(std::string& value, wire::Address) { value = "with a blank:1"; }
void beyond(std::string& value, const wire::Text& rule) { value.assign(rule.most + 1, 'a'); }
void beyond(auto& list, const wire::Few& rule) { list.resize(rule.most + 1); }

}  // namespace

BOOST_AUTO_TEST_SUITE(fields)

BOOST_AUTO_TEST_CASE(no_member_of_a_message_is_forgotten) {
  for_each_type([]<class Message>(const Message& message) {
    std::size_t visited = 0;
    wire::fields(message, [&](const char*, const auto&, const auto&) { ++visited; });
    BOOST_TEST(visited == members_of<Message>(), wire::title_of(message));
  });
}

BOOST_AUTO_TEST_CASE(fields_are_in_the_order_of_the_schema) {
  const auto compare = [](const auto& message, const flatbuffers::TypeTable* table) {
    BOOST_TEST(names_in_table(message) == names_in(table), wire::title_of(message));
  };
  compare(wire::MemberRecord{}, fb::MemberTypeTable());
  compare(wire::Hello{}, fb::HelloTypeTable());
  compare(wire::Refuse{}, fb::RefuseTypeTable());
  compare(wire::RunFileRequest{}, fb::RunFileRequestTypeTable());
  compare(wire::RunFileReply{}, fb::RunFileReplyTypeTable());
  compare(wire::Neighbour{}, fb::NeighbourTypeTable());
  compare(wire::Claim{}, fb::ClaimTypeTable());
  compare(wire::Gossip{}, fb::GossipTypeTable());
  compare(wire::Heartbeat{}, fb::HeartbeatTypeTable());
  compare(wire::TableEntry{}, fb::TableEntryTypeTable());
  compare(wire::Reconcile{}, fb::ReconcileTypeTable());
  compare(wire::LinkOpen{}, fb::LinkOpenTypeTable());
  compare(wire::Keyframe{}, fb::KeyframeTypeTable());
  compare(wire::Settle{}, fb::SettleTypeTable());
  compare(wire::Reduce{}, fb::ReduceTypeTable());
  compare(wire::ReduceReceived{}, fb::ReduceReceivedTypeTable());
  compare(wire::Bye{}, fb::ByeTypeTable());
  compare(wire::DialBack{}, fb::DialBackTypeTable());
  compare(wire::DialedBack{}, fb::DialedBackTypeTable());
  compare(wire::Introduce{}, fb::IntroduceTypeTable());
  compare(wire::Circuit{}, fb::CircuitTypeTable());
}

BOOST_AUTO_TEST_CASE(random_messages_come_back_as_they_went) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    base::Rng rng(seed);
    for_each_type([&]<class Message>(const Message&) {
      if constexpr (kIsMessage<Message>) {
        const auto message = random_message<Message>(rng);
        BOOST_TEST_CONTEXT("seed " << seed) {
          BOOST_TEST(text_of(sent(message)) == text_of(message));
        }
      }
    });
  }
}

BOOST_AUTO_TEST_CASE(a_value_beyond_its_rule_is_refused_by_name) {
  base::Rng rng(1);
  for_each_type([&]<class Message>(const Message&) {
    const Message good = random_message<Message>(rng);
    BOOST_TEST(wire::check(good).has_value(), wire::title_of(good));
    Message bad = good;
    wire::fields(bad, [&](const char* name, auto& value, const auto& rule) {
      if constexpr (requires { beyond(value, rule); }) {
        const auto before = value;
        beyond(value, rule);
        const base::Status status = wire::check(bad);
        value = before;
        BOOST_REQUIRE_MESSAGE(!status, wire::title_of(bad) << ": " << name);
        BOOST_TEST(status.error().text.find(name) != std::string::npos, status.error().text);
      }
    });
  });
}

BOOST_AUTO_TEST_SUITE_END()
