#include "io/address.hpp"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <boost/test/unit_test.hpp>
#include <dlfcn.h>
#include <netdb.h>

#include "harness.hpp"
#include "names.hpp"

using namespace starling;
using namespace starling::io;
using namespace starling::io::test;

namespace {

/// A name server that does not answer before it is told to.
class NameServer {
 public:
  NameServer() = default;
  NameServer(const NameServer&) = delete;
  NameServer& operator=(const NameServer&) = delete;
  /// Waits for the lookup threads, which nothing else does.
  ~NameServer() {
    std::unique_lock lock(mutex_);
    answers_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return answered_ == asked_; });
  }

  /// Called on the resolver's threads.
  void ask() {
    std::unique_lock lock(mutex_);
    ++asked_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return answers_; });
    ++answered_;
    changed_.notify_all();
  }
  void wait_until_asked(int times = 1) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return asked_ >= times; });
  }
  void answer() {
    const std::scoped_lock lock(mutex_);
    answers_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] int asked() {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int asked_ = 0;
  int answered_ = 0;
  bool answers_ = false;
};

NameServer* name_server = nullptr;
constexpr std::string_view kSlow = ".slow.invalid";

}  // namespace

// In place of the C library's.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** list) {
  if (node != nullptr && std::string_view(node).ends_with(kSlow)) {
    name_server->ask();
    return EAI_NONAME;
  }
  using Function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "getaddrinfo"));
  const auto fake = node == nullptr ? fake_names.end() : fake_names.find(node);
  if (fake == fake_names.end()) return real(node, service, hints, list);
  *list = nullptr;
  for (const std::string& host : fake->second) {
    if (real(host.c_str(), service, hints, list) != 0) return EAI_FAIL;
    list = &(*list)->ai_next;
  }
  return fake->second.empty() ? EAI_NONAME : 0;
}

namespace {

bool has(const Lookup::Found& found, std::string_view address) {
  return std::ranges::count(found, address, [](const auto& one) { return to_string(one); }) == 1;
}

struct Lookups {
  Lookups() { name_server = &names; }

  /// Asks; the answers are added to `answers`.
  Lookup& look_up(const std::string& host, std::uint16_t port = 1) {
    lookups.push_back(std::make_unique<Lookup>(
        resolver, HostPort{host, port},
        [this](base::Result<Lookup::Found> found) { answers.push_back(std::move(found)); }));
    return *lookups.back();
  }

  NameServer names;  // first: outlives all that ask
  Loop loop = make_loop();
  Resolver resolver{loop};
  std::vector<std::unique_ptr<Lookup>> lookups;
  std::vector<base::Result<Lookup::Found>> answers;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(addresses, Lookups)

BOOST_AUTO_TEST_CASE(numbers_need_no_lookup) {
  const auto found = numeric_address({"10.0.0.5", 7000});
  BOOST_REQUIRE(found);
  BOOST_TEST(to_string(*found) == "10.0.0.5:7000");
  BOOST_TEST(to_string(numeric_address({"2001:DB8:0::1", 7000}).value()) == "[2001:db8::1]:7000");
  BOOST_TEST(to_string(numeric_address({"::ffff:10.0.0.5", 7}).value()) == "10.0.0.5:7");
  BOOST_TEST(to_string(numeric_address({"fe80::1%lo", 7}).value()) == "[fe80::1%lo]:7");
  for (const char* host : {"localhost", "10.0.0", "10.0.0.256", "1.2.3.4.example", "", "[::1]",
                           "2001:db8::g", "1::2::3", "fe80::1%nowhere", ":"}) {
    BOOST_TEST(!numeric_address({host, 1}), host);
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_address_is_told_why) {
  const auto said = [](std::string_view address) { return parse_address(address).error().text; };
  BOOST_TEST(said("http://x:80").find("it is a URL") != std::string::npos);
  BOOST_TEST(said("[::1]").find("the port is missing") != std::string::npos);
  BOOST_TEST(said("[::1:80").find("the ']' behind the IPv6 address is") != std::string::npos);
  BOOST_TEST(said("[::1]x:80").find("something between ']' and the port") != std::string::npos);
  BOOST_TEST(said("[a.b]:80").find("no IPv6 address in the brackets;") != std::string::npos);
  BOOST_TEST(said("[fe80::1%no]:80").find("or no such interface here") != std::string::npos);
  BOOST_TEST(said("2001:db8:0:0:0:0:0:1:70").find("write [2001:db8::1]:70") == std::string::npos);
  BOOST_TEST(said("2001:db8:0:0:0:0:0:1:70").find("write [2001:db8:0:0:0:0:0:1]:70") !=
             std::string::npos);
  BOOST_TEST(said("2001:db8::1").find("IPv6 needs brackets: write [2001:db8::1]:PORT") !=
             std::string::npos);
  BOOST_TEST(said("a:b:c").find("IPv6 needs brackets: write [2001:db8::1]:7000") !=
             std::string::npos);
  BOOST_TEST(said("\x1b[2J").find("\"?[2J\" is not an address: the port is missing") == 0U);
  BOOST_TEST(said("b\xfcro:80").find("\"b?ro:80\" is not an address: the host name") == 0U);
  BOOST_TEST(said("a b:80").find("the host name has other characters") != std::string::npos);
  BOOST_TEST(parse_address("a:0").has_value());
  BOOST_TEST(parse_target("a:0").error().text.find("\"a:0\" is not an address: nobody has") == 0U);
  BOOST_TEST(parse_target("a:1").value().port == 1U);
  BOOST_TEST((parse_target("[2001:db8::1]:7000").value() == HostPort{"2001:db8::1", 7000}));
  BOOST_TEST(to_string(parse_target("[2001:db8::1]:7000").value()) == "[2001:db8::1]:7000");
  BOOST_TEST((parse_address(":7000").value() == HostPort{"::", 7000}));
  BOOST_TEST(parse_target(":7000").error().text.find("the host is missing") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_client_is_this_machines_by_loopback_or_by_the_address_it_reached) {
  const auto is_own = [](const char* client, const char* reached) {
    return is_own_client(*base::Ip::parse(client), *base::Ip::parse(reached));
  };
  BOOST_TEST(is_own("127.0.0.1", "127.0.0.1"));
  BOOST_TEST(is_own("127.0.0.2", "10.0.0.5"));
  BOOST_TEST(is_own("10.0.0.5", "10.0.0.5"));
  BOOST_TEST(!is_own("10.0.0.6", "10.0.0.5"));
  BOOST_TEST(!is_own("10.0.0.127", "127.0.0.1"));
  BOOST_TEST(is_own("::1", "2001:db8::1"));
  BOOST_TEST(is_own("::ffff:127.0.0.1", "::ffff:10.0.0.5"));
  BOOST_TEST(is_own("2001:db8::1", "2001:db8::1"));
  BOOST_TEST(!is_own("2001:db8::2", "2001:db8::1"));
}

BOOST_AUTO_TEST_CASE(a_lookup_answers_from_the_loop_and_not_at_once) {
  look_up("localhost", 7000);
  BOOST_TEST(answers.empty());
  BOOST_REQUIRE(run_until(loop, [&] { return !answers.empty(); }));
  BOOST_REQUIRE(answers[0]);
  BOOST_TEST(has(*answers[0], "127.0.0.1:7000"));
  BOOST_TEST(resolver.asking() == 0U);
}

BOOST_AUTO_TEST_CASE(all_addresses_of_a_name_are_found_once_each_and_not_too_many) {
  fake_names = {{"two.invalid", {"2001:db8::1", "10.0.0.1", "::ffff:10.0.0.1"}},
                {"many.invalid", {}}};
  for (int i = 0; i < 100; ++i) {
    fake_names["many.invalid"].push_back("10.0.0." + std::to_string(i));
  }
  look_up("two.invalid", 7);
  look_up("many.invalid", 7);
  BOOST_REQUIRE(run_until(loop, [&] { return answers.size() == 2; }));
  if (answers[0]->size() != 2) std::swap(answers[0], answers[1]);
  BOOST_TEST(to_string(answers[0]->at(0)) == "[2001:db8::1]:7");
  BOOST_TEST(to_string(answers[0]->at(1)) == "10.0.0.1:7");
  BOOST_TEST(answers[1]->size() == kAddressesPerName);
  fake_names.clear();
}

BOOST_AUTO_TEST_CASE(a_name_is_asked_for_once_at_a_time_even_if_nobody_waits_for_it_any_more) {
  look_up("a.slow.invalid");
  names.wait_until_asked();
  for (int i = 0; i < 10; ++i) {
    lookups.clear();  // the dial timed out
    look_up("a.slow.invalid", 1);
    look_up("a.slow.invalid", 2);
    BOOST_TEST(resolver.asking() == 1U);
  }
  names.answer();
  BOOST_REQUIRE(run_until(loop, [&] { return answers.size() == 2; }));
  BOOST_TEST(!answers[0]);
  BOOST_TEST(names.asked() == 1);
  look_up("a.slow.invalid");
  BOOST_REQUIRE(run_until(loop, [&] { return answers.size() == 3; }));
  BOOST_TEST(names.asked() == 2);
}

BOOST_AUTO_TEST_CASE(names_that_no_server_answers_for_take_few_threads_and_do_not_hold_up_numbers) {
  const int most = Resolver::kAskingMax;
  for (int i = 0; i < most + 2; ++i) look_up(std::to_string(i) + std::string(kSlow));
  names.wait_until_asked(most);
  BOOST_TEST(resolver.asking() == Resolver::kAskingMax);
  Endpoint a(loop);
  Endpoint b(loop);
  BOOST_TEST(link_up(loop, a, b));
  BOOST_TEST(answers.empty());
  lookups.pop_back();  // one that waits for its turn
  names.answer();
  const auto left = static_cast<std::size_t>(most) + 1;
  BOOST_TEST(run_until(loop, [&] { return answers.size() == left; }));
  BOOST_TEST(names.asked() == most + 1);
  BOOST_TEST(resolver.asking() == 0U);
}

BOOST_AUTO_TEST_CASE(who_hears_an_answer_may_forget_others_and_ask_again) {
  lookups.push_back(std::make_unique<Lookup>(resolver, HostPort{"localhost", 1}, [this](auto) {
    lookups.clear();
    look_up("localhost", 3);
  }));
  look_up("localhost", 2);
  BOOST_REQUIRE(run_until(loop, [&] { return !answers.empty(); }));
  BOOST_TEST(has(answers.at(0).value(), "127.0.0.1:3"));
}

BOOST_AUTO_TEST_CASE(nothing_waits_at_the_end_for_a_name_that_no_server_answers_for) {
  {
    Loop own = make_loop();
    Resolver other(own);
    const Lookup lookup(other, {"b.slow.invalid", 1}, [](const base::Result<Lookup::Found>&) {});
    names.wait_until_asked();
  }
  BOOST_TEST(names.asked() == 1);  // and not answered yet
}

BOOST_AUTO_TEST_SUITE_END()
