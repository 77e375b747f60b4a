#include "io/proxy.hpp"

#include <map>

#include <boost/test/unit_test.hpp>

using namespace starling;
using io::choose_proxy;
using io::HostPort;
using io::parse_proxy;
using io::ProxyConfig;

namespace {

ProxyConfig proxy_of(const char* url) {
  auto parsed = parse_proxy(url);
  BOOST_REQUIRE_MESSAGE(parsed.has_value(), url << ": " << (parsed ? "" : parsed.error().text));
  return std::move(*parsed);
}

io::Environment environment(std::map<std::string, std::string> set) {
  return [set = std::move(set)](const char* name) -> std::optional<std::string> {
    const auto found = set.find(name);
    return found == set.end() ? std::nullopt : std::optional(found->second);
  };
}

/// The proxy that is chosen, without its login; "" for none.
std::string chosen(const std::string& option, std::map<std::string, std::string> set) {
  const auto proxy = choose_proxy(option, environment(std::move(set)));
  BOOST_REQUIRE_MESSAGE(proxy.has_value(), (proxy ? "" : proxy.error().text));
  return *proxy ? (*proxy)->name() : "";
}

bool serves(const std::string& no_proxy, const std::string& host) {
  const auto proxy = choose_proxy("socks5://proxy", environment({{"no_proxy", no_proxy}}));
  BOOST_REQUIRE(proxy.has_value());
  return (*proxy)->serves({host, 7000});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(proxy)

BOOST_AUTO_TEST_CASE(urls_are_read_as_curl_reads_them) {
  const ProxyConfig plain = proxy_of("socks5h://proxy.example:9050");
  BOOST_TEST((plain.kind == ProxyConfig::Kind::socks5));
  BOOST_TEST(plain.at.host == "proxy.example");
  BOOST_TEST(plain.at.port == 9050);
  BOOST_TEST(!plain.login.has_value());
  BOOST_TEST(proxy_of("SOCKS5://[::1]:9/").name() == "socks5://[::1]:9");
  BOOST_TEST(proxy_of("proxy").name() == "http://proxy:1080");
  BOOST_TEST(proxy_of("http://192.0.2.1").name() == "http://192.0.2.1:1080");

  const ProxyConfig with_login = proxy_of("http://us%40er:p%3a@ss@proxy:3128");
  BOOST_REQUIRE(with_login.login.has_value());
  BOOST_TEST(with_login.login->user == "us@er");
  BOOST_TEST(with_login.login->password == "p:@ss");
  BOOST_TEST(with_login.name() == "http://proxy:3128");
  BOOST_TEST(proxy_of("socks5://me@proxy").login->password == "");
}

BOOST_AUTO_TEST_CASE(what_is_no_proxy_is_refused_with_what_is_allowed) {
  const std::string long_name(256, 'u');
  for (const std::string url :
       {"https://proxy:443", "socks4://proxy", "socks5://", "socks5://proxy:0", "socks5://proxy:a",
        "socks5://proxy:70000", "socks5://[::1", "socks5://[proxy]:1", "socks5://[::1]1",
        "socks5://a%4:b@proxy", "socks5://a%zz@proxy", "socks5://:b@proxy", "socks5://a%0d:b@proxy",
        "http://proxy:1/path", "http://pro xy", "http://proxy:1:2"}) {
    const auto parsed = parse_proxy(url);
    BOOST_REQUIRE_MESSAGE(!parsed.has_value(), url);
    BOOST_TEST(parsed.error().text.find("socks5://HOST:PORT") != std::string::npos,
               url << ": " << parsed.error().text);
    BOOST_TEST((parsed.error().code == base::ErrorCode::usage));
  }
  BOOST_TEST(!parse_proxy("socks5://" + long_name + ":x@proxy").has_value());
  BOOST_TEST(!parse_proxy("socks5://u:" + long_name + "@proxy").has_value());
  BOOST_TEST(!parse_proxy("socks5://" + long_name).has_value());
}

BOOST_AUTO_TEST_CASE(an_error_does_not_repeat_a_password) {
  for (const char* url :
       {"ftp://user:hidden@proxy", "socks5://user:hidden@proxy:0", "socks5://user:hidden%@proxy"}) {
    const auto parsed = parse_proxy(url);
    BOOST_REQUIRE(!parsed.has_value());
    BOOST_TEST(parsed.error().text.find("hidden") == std::string::npos, parsed.error().text);
  }
}

BOOST_AUTO_TEST_CASE(the_option_comes_first_then_https_proxy_then_all_proxy) {
  BOOST_TEST(chosen("", {}) == "");
  BOOST_TEST(chosen("socks5://a", {{"https_proxy", "b"}}) == "socks5://a:1080");
  BOOST_TEST(chosen("", {{"https_proxy", "b"}, {"HTTPS_PROXY", "c"}}) == "http://b:1080");
  BOOST_TEST(chosen("", {{"HTTPS_PROXY", "c"}, {"all_proxy", "d"}}) == "http://c:1080");
  BOOST_TEST(chosen("", {{"all_proxy", "d"}, {"ALL_PROXY", "e"}}) == "http://d:1080");
  BOOST_TEST(chosen("", {{"ALL_PROXY", "socks5h://e"}}) == "socks5://e:1080");
  BOOST_TEST(chosen("", {{"https_proxy", ""}, {"ALL_PROXY", "e"}}) == "http://e:1080");
  // Settings for plain HTTP are not for links.
  BOOST_TEST(chosen("", {{"http_proxy", "b"}, {"HTTP_PROXY", "c"}}) == "");
}

BOOST_AUTO_TEST_CASE(an_error_names_the_option_or_the_variable) {
  const auto option = choose_proxy("socks4://a", environment({}));
  BOOST_REQUIRE(!option.has_value());
  BOOST_TEST(option.error().text.starts_with("--proxy: "), option.error().text);
  const auto variable = choose_proxy("", environment({{"ALL_PROXY", "https://a"}}));
  BOOST_REQUIRE(!variable.has_value());
  BOOST_TEST(variable.error().text.starts_with("ALL_PROXY: "), variable.error().text);
  std::string many;
  for (std::size_t i = 0; i <= io::kNoProxyMax; ++i) many += "a,";
  const auto list = choose_proxy("socks5://a", environment({{"NO_PROXY", many}}));
  BOOST_REQUIRE(!list.has_value());
  BOOST_TEST(list.error().text.starts_with("NO_PROXY: "), list.error().text);
}

BOOST_AUTO_TEST_CASE(this_machine_is_never_dialed_through_a_proxy) {
  for (const char* host : {"localhost", "LocalHost", "peer.localhost", "127.0.0.1", "127.9.9.9",
                           "::1", "::ffff:127.0.0.1"}) {
    BOOST_TEST(!serves("", host), host);
  }
  for (const char* host : {"128.0.0.1", "10.0.0.1", "::2", "localhost.example", "1270.0.0.1"}) {
    BOOST_TEST(serves("", host), host);
  }
}

BOOST_AUTO_TEST_CASE(no_proxy_names_hosts_domains_addresses_and_networks) {
  const std::string list =
      "plain, .dotted.example example.com.,10.0.0.0/8\t192.0.2.7,[2001:db8::]/32,2001:db8:1::/48, "
      "fe80::1,1.2.3.4/33,/8,5.6.7.8/x";
  for (const char* host :
       {"plain", "PLAIN", "plain.", "a.plain", "dotted.example", "a.b.dotted.example",
        "example.com", "www.example.com", "10.255.0.1", "192.0.2.7", "2001:db8:1::5", "fe80::1",
        "fe80::1%eth0", "::ffff:10.1.1.1"}) {
    BOOST_TEST(!serves(list, host), host);
  }
  for (const char* host : {"notplain", "explain", "xdotted.example", "example.org", "11.0.0.1",
                           "192.0.2.8", "2001:db8:2::5", "1.2.3.4", "5.6.7.8", "10.example"}) {
    BOOST_TEST(serves(list, host), host);
  }
  BOOST_TEST(!serves("*", "anything.example"));
  BOOST_TEST(!serves("a,*", "192.0.2.1"));
  BOOST_TEST(serves("*.example.com", "www.example.com"));  // curl knows no other stars
}

BOOST_AUTO_TEST_CASE(no_proxy_in_small_letters_comes_first) {
  const auto proxy =
      choose_proxy("socks5://a", environment({{"no_proxy", "one"}, {"NO_PROXY", "two"}}));
  BOOST_REQUIRE(proxy.has_value());
  BOOST_TEST(!(*proxy)->serves({"one", 1}));
  BOOST_TEST((*proxy)->serves({"two", 1}));
}

BOOST_AUTO_TEST_SUITE_END()
