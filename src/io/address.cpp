#include "io/address.hpp"

#include <algorithm>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <netdb.h>

#include "base/assert.hpp"
#include "base/parse_number.hpp"
#include "base/printable.hpp"
#include "io/blocked_signals.hpp"

namespace starling::io {
namespace {

constexpr std::size_t kHostMax = 253;  // bytes of a DNS name

tl::unexpected<base::Error> unresolved(const std::string& host, const std::string& why) {
  return base::fail(base::ErrorCode::network,
                    "{}: this host name cannot be resolved to an IPv4 address: {}", host, why);
}

/// Asks the system. Where no name server answers that takes half a minute and more.
base::Result<sockaddr_in> ask_system(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int failed = getaddrinfo(host.c_str(), nullptr, &wanted, &list);
  if (failed != 0) return unresolved(host, gai_strerror(failed));
  const sockaddr_in address = *reinterpret_cast<const sockaddr_in*>(list->ai_addr);
  freeaddrinfo(list);
  return address;
}

base::Result<sockaddr_in> with_port(base::Result<sockaddr_in> found, std::uint16_t port) {
  if (found) found->sin_port = htons(port);
  return found;
}

/// Addresses may come from other peers.
tl::unexpected<base::Error> not_an_address(std::string_view address, const char* what) {
  return base::fail(base::ErrorCode::network,
                    "\"{}\" is not an address: {}; write host:port, as in 192.168.1.5:7000",
                    base::printable(address, kHostMax), what);
}

}  // namespace

base::Result<HostPort> parse_address(std::string_view address) {
  const auto bad = [&](const char* what) { return not_an_address(address, what); };
  if (address.find("://") != std::string_view::npos) return bad("it is a URL");
  const auto colon = address.rfind(':');
  if (colon == std::string_view::npos) return bad("the port is missing");
  const std::string_view host = address.substr(0, colon);
  const std::string_view digits = address.substr(colon + 1);
  if (host.find(':') != std::string_view::npos || host.starts_with('[')) {
    return bad("IPv6 is not supported");
  }
  if (host.empty()) return bad("the host is missing");
  if (host.size() > kHostMax) return bad("the host name is too long");
  const auto is_plain = [](char c) { return c > ' ' && c <= '~'; };
  if (!std::ranges::all_of(host, is_plain)) {
    return bad(
        "the host name has other characters than a name server knows (another alphabet is "
        "written as xn--...)");
  }
  const auto port = base::parse_number<std::uint16_t>(digits);
  if (!port) return bad("the port must be a number from 0 to 65535");
  return HostPort{std::string(host), *port};
}

base::Result<HostPort> parse_target(std::string_view address) {
  auto parsed = parse_address(address);
  if (parsed && parsed->port == 0) return not_an_address(address, "nobody has the port 0");
  return parsed;
}

std::string to_string(const sockaddr_in& address) {
  char host[INET_ADDRSTRLEN] = {};
  uv_ip4_name(&address, host, sizeof host);
  return fmt::format("{}:{}", host, ntohs(address.sin_port));
}

std::optional<sockaddr_in> numeric_address(const HostPort& target) {
  sockaddr_in address{};
  if (uv_ip4_addr(target.host.c_str(), target.port, &address) != 0) return std::nullopt;
  return address;
}

bool is_own_client(const sockaddr_in& client, const sockaddr_in& reached) {
  const bool loopback = (ntohl(client.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
  return loopback || client.sin_addr.s_addr == reached.sin_addr.s_addr;
}

base::Result<sockaddr_in> resolve_now(const HostPort& target) {
  return with_port(ask_system(target.host), target.port);
}

std::string interface_of(const sockaddr_in& address) {
  uv_interface_address_t* list = nullptr;
  int count = 0;
  if (uv_interface_addresses(&list, &count) != 0) return {};
  std::string name;
  for (int i = 0; i < count; ++i) {
    const sockaddr_in& own = list[i].address.address4;
    if (own.sin_family == AF_INET && own.sin_addr.s_addr == address.sin_addr.s_addr) {
      name = list[i].name;
      break;
    }
  }
  uv_free_interface_addresses(list, count);
  // An alias such as eth0:1 is no device.
  return name.substr(0, name.find(':'));
}

struct Resolver::Answer {
  std::string host;
  base::Result<sockaddr_in> found;
};

struct Resolver::Answers {
  std::mutex mutex;  ///< guards the others
  WakeUp* wake;      ///< none once the resolver is gone
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
  // One that is being asked stays: whoever wants to know the same next gets its answer.
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
    // Out of the list first: who hears the answer may ask again.
    std::list<Question> answered;
    answered.splice(answered.end(), questions_,
                    std::ranges::find(questions_, answer.host, &Question::host));
    --asking_;
    std::vector<Lookup*>& waiting = answered.front().waiting;
    while (!waiting.empty()) {
      Lookup& lookup = *waiting.front();
      waiting.erase(waiting.begin());
      lookup.question_ = nullptr;
      // Out of the lookup, which may be destroyed inside.
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
