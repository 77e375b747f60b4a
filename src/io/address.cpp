#include "io/address.hpp"

#include <algorithm>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <net/if.h>
#include <netdb.h>

#include "base/assert.hpp"
#include "base/parse_number.hpp"
#include "base/printable.hpp"
#include "io/blocked_signals.hpp"
#include "io/raw_address.hpp"

namespace starling::io {
namespace {

constexpr std::size_t kHostMax = 253;  // bytes of a DNS name

tl::unexpected<base::Error> unresolved(const std::string& host, const std::string& why) {
  return base::fail(base::ErrorCode::network, "{}: this host name cannot be resolved: {}", host,
                    why);
}

/// Asks the system. If no name server answers, this takes half a minute or more.
base::Result<Lookup::Found> ask_system(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int failed = getaddrinfo(host.c_str(), nullptr, &wanted, &list);
  if (failed != 0) return unresolved(host, gai_strerror(failed));
  Lookup::Found found;
  for (const addrinfo* one = list; one != nullptr && found.size() < kAddressesPerName;
       one = one->ai_next) {
    const auto address = ip_port_of(one->ai_addr);
    if (address && std::ranges::find(found, *address) == found.end()) found.push_back(*address);
  }
  freeaddrinfo(list);
  if (found.empty()) return unresolved(host, "it has no address of IPv4 or IPv6");
  return found;
}

base::Result<Lookup::Found> with_port(base::Result<Lookup::Found> found, std::uint16_t port) {
  if (!found) return found;
  for (base::IpPort& address : *found) address.port = port;
  return found;
}

/// Addresses may come from other peers.
tl::unexpected<base::Error> not_an_address(std::string_view address, const char* what) {
  return base::fail(base::ErrorCode::network,
                    "\"{}\" is not an address: {}; write host:port, as in 192.168.1.5:7000 or "
                    "[2001:db8::1]:7000",
                    base::printable(address, kHostMax), what);
}

/// The fault of an address's host; null: none.
const char* fault_of(std::string_view host) {
  if (host.size() > kHostMax) return "the host name is too long";
  const auto is_plain = [](char c) { return c > ' ' && c <= '~' && c != '[' && c != ']'; };
  if (std::ranges::all_of(host, is_plain)) return nullptr;
  return "the host name has other characters than a name server knows (another alphabet is "
         "written as xn--...)";
}

/// How to write an address whose host has colons but no brackets.
std::string with_brackets(std::string_view host, std::string_view digits) {
  const std::string all = fmt::format("{}:{}", host, digits);
  // The last number may belong to either.
  if (numeric_address({std::string(host), 1})) return fmt::format("[{}]:{}", host, digits);
  if (numeric_address({all, 1})) return fmt::format("[{}]:PORT", all);
  return "[2001:db8::1]:7000";
}

}  // namespace

std::string to_string(const HostPort& target) { return base::to_address(target.host, target.port); }

base::Result<HostPort> parse_address(std::string_view address) {
  const auto bad = [&](const char* what) { return not_an_address(address, what); };
  if (address.find("://") != std::string_view::npos) return bad("it is a URL");
  const bool brackets = address.starts_with('[');
  const auto closed = brackets ? address.find(']') : 0;
  if (closed == std::string_view::npos) return bad("the ']' behind the IPv6 address is missing");
  const auto colon = address.rfind(':');
  if (colon == std::string_view::npos || colon < closed) return bad("the port is missing");
  std::string_view host = address.substr(0, colon);
  const std::string_view digits = address.substr(colon + 1);
  if (brackets) {
    if (closed + 1 != colon) return bad("there is something between ']' and the port");
    host = host.substr(1, closed - 1);
    if (host.find(':') == std::string_view::npos || !numeric_address({std::string(host), 0})) {
      return bad(host.find('%') == std::string_view::npos
                     ? "there is no IPv6 address in the brackets"
                     : "there is no IPv6 address in the brackets, or no such interface here");
    }
  } else if (host.find(':') != std::string_view::npos) {
    const std::string right = base::printable(with_brackets(host, digits), kHostMax);
    return bad(fmt::format("IPv6 needs brackets: write {}", right).c_str());
  }
  if (const char* fault = fault_of(host)) return bad(fault);
  const auto port = base::parse_number<std::uint16_t>(digits);
  if (!port) return bad("the port must be a number from 0 to 65535");
  return HostPort{host.empty() ? "::" : std::string(host), *port};
}

base::Result<HostPort> parse_target(std::string_view address) {
  auto parsed = parse_address(address);
  if (!parsed) return parsed;
  if (address.starts_with(':')) return not_an_address(address, "the host is missing");
  if (parsed->port == 0) return not_an_address(address, "nobody has the port 0");
  return parsed;
}

std::optional<base::IpPort> numeric_address(const HostPort& target) {
  const std::string_view host = target.host;
  const std::size_t at = host.find('%');
  const auto ip = base::Ip::parse(host.substr(0, at));
  if (!ip) return std::nullopt;
  if (at == std::string_view::npos) return base::IpPort{*ip, target.port};
  // The name of an unknown interface would count as no interface.
  const unsigned interface = if_nametoindex(target.host.c_str() + at + 1);
  if (interface == 0 || host.find(':') > at) return std::nullopt;
  return base::IpPort{ip->on_interface(interface), target.port};
}

bool is_own_client(const base::Ip& client, const base::Ip& reached) {
  return client.is_loopback() || client == reached;
}

base::Result<base::IpPort> resolve_now(const HostPort& target) {
  if (const auto numeric = numeric_address(target)) return *numeric;
  const auto found = with_port(ask_system(target.host), target.port);
  if (!found) return base::fail(found.error());
  const auto v4 = std::ranges::find_if(*found, &base::Ip::is_v4, &base::IpPort::ip);
  return v4 == found->end() ? found->front() : *v4;
}

struct Resolver::Answer {
  std::string host;
  base::Result<Lookup::Found> found;
};

struct Resolver::Answers {
  std::mutex mutex;  ///< guards the others
  WakeUp* wake;      ///< null once the resolver is gone
  std::vector<Answer> waiting{};

  void add(Answer answer) {
    const std::lock_guard lock(mutex);
    if (wake == nullptr) return;
    waiting.push_back(std::move(answer));
    wake->wake();
  }
};

Resolver::Resolver(Loop& loop)
    : loop_(loop), wake_(loop, [this] { take_answers(); }), answers_(new Answers{{}, &wake_}) {}

Resolver::~Resolver() {
  for (const Question& question : questions_) {
    ASSERT(question.waiting.empty(), "a lookup outlived its resolver");
  }
  const std::lock_guard lock(answers_->mutex);
  answers_->wake = nullptr;
}

Resolver::Question& Resolver::question_for(const std::string& host) {
  const auto known = std::ranges::find(questions_, host, &Question::host);
  if (known != questions_.end()) return *known;
  return questions_.emplace_back(Question{host});
}

void Resolver::forget(Lookup& lookup) {
  Question& question = *lookup.question_;
  std::erase(question.waiting, &lookup);
  // A question under way stays: the next lookup of the same name gets its answer.
  if (!question.waiting.empty() || question.asked) return;
  questions_.remove_if([&](const Question& other) { return &other == &question; });
}

void Resolver::ask_next() {
  while (asking_ < kAskingMax) {
    const auto next = std::ranges::find(questions_, false, &Question::asked);
    if (next == questions_.end()) return;
    next->asked = true;
    ++asking_;
    try {
      const BlockedSignals blocked;
      std::thread([host = next->host, answers = answers_] {
        answers->add({host, ask_system(host)});
      }).detach();
    } catch (const std::system_error& error) {
      answers_->add({next->host, unresolved(next->host, error.what())});
    }
  }
}

void Resolver::take_answers() {
  std::vector<Answer> answers;
  {
    const std::lock_guard lock(answers_->mutex);
    answers.swap(answers_->waiting);
  }
  for (const Answer& answer : answers) {
    // Removed from the list first: the answer's receiver may ask again.
    std::list<Question> answered;
    answered.splice(answered.end(), questions_,
                    std::ranges::find(questions_, answer.host, &Question::host));
    --asking_;
    std::vector<Lookup*>& waiting = answered.front().waiting;
    while (!waiting.empty()) {
      Lookup& lookup = *waiting.front();
      waiting.erase(waiting.begin());
      lookup.question_ = nullptr;
      // Moved out of the lookup, which may be destroyed inside.
      const Lookup::Done done = std::move(lookup.done_);
      done(with_port(answer.found, lookup.port_));
    }
  }
  ask_next();
}

Lookup::Lookup(Resolver& resolver, const HostPort& target, Done done)
    : resolver_(resolver),
      port_(target.port),
      done_(std::move(done)),
      question_(&resolver.question_for(target.host)) {
  question_->waiting.push_back(this);
  resolver_.ask_next();
}

Lookup::~Lookup() {
  if (question_ != nullptr) resolver_.forget(*this);
}

}  // namespace starling::io
