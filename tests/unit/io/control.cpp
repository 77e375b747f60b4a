#include "io/control.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <unistd.h>
#include <uv.h>

#include "harness.hpp"
#include "io/address.hpp"

using namespace starling;
using namespace starling::io;
using namespace starling::io::test;

namespace {

/// Sends a text when connected, further ones on request, and keeps the received text until the
/// other end closes. Lives until then.
class HttpClient {
 public:
  HttpClient(Loop& loop, const std::string& address, std::string request)
      : request_(std::move(request)), tcp_(new uv_tcp_t) {
    uv_tcp_init(loop.raw(), tcp_);
    tcp_->data = connect_.data = this;
    const HostPort target = parse_address(address).value();
    sockaddr_in to{};
    uv_ip4_addr(target.host.c_str(), target.port, &to);
    BOOST_REQUIRE(uv_tcp_connect(&connect_, tcp_, reinterpret_cast<const sockaddr*>(&to),
                                 [](uv_connect_t* connect, int status) {
                                   BOOST_REQUIRE(status == 0);
                                   of(connect->data).start();
                                 }) == 0);
  }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient() {
    uv_close(reinterpret_cast<uv_handle_t*>(tcp_),
             [](uv_handle_t* closed) { delete reinterpret_cast<uv_tcp_t*>(closed); });
  }

  void say(std::string_view text) {
    uv_buf_t buffer =
        uv_buf_init(const_cast<char*>(text.data()), static_cast<unsigned>(text.size()));
    BOOST_TEST(uv_try_write(reinterpret_cast<uv_stream_t*>(tcp_), &buffer, 1) ==
               static_cast<int>(text.size()));
  }

  std::string reply;
  bool connected = false;
  bool ended = false;

 private:
  static HttpClient& of(void* data) { return *static_cast<HttpClient*>(data); }

  void start() {
    auto* stream = reinterpret_cast<uv_stream_t*>(tcp_);
    uv_read_start(
        stream,
        [](uv_handle_t* handle, std::size_t, uv_buf_t* into) {
          auto& input = of(handle->data).input_;
          *into = uv_buf_init(input.data(), static_cast<unsigned>(input.size()));
        },
        [](uv_stream_t* from, ssize_t count, const uv_buf_t*) {
          HttpClient& client = of(from->data);
          if (count > 0) client.reply.append(client.input_.data(), static_cast<std::size_t>(count));
          if (count >= 0) return;
          uv_read_stop(from);
          client.ended = true;
        });
    connected = true;
    if (!request_.empty()) say(request_);
  }

  std::string request_;
  std::array<char, 4096> input_{};
  uv_connect_t connect_{};
  uv_tcp_t* tcp_;  ///< of libuv from uv_close on
};

/// A control port that answers with the method and the path, and remembers the requests.
struct Fixture {
  explicit Fixture(const char* address = "127.0.0.1:0") {
    auto made = Control::create(
        loop, address,
        [this](const ControlRequest& request) {
          asked.push_back(request);
          return ControlReply{200, std::string(request.post ? "post " : "get ") + request.path,
                              "text/plain"};
        },
        [this](const base::Ip&, const base::Ip&) { return own; });
    BOOST_REQUIRE(made);
    control = std::move(*made);
  }
  ~Fixture() {
    control->close();
    loop.run();
  }

  /// The port's answer; empty if it closes without one.
  std::string ask(std::string request) {
    HttpClient client(loop, control->address(), std::move(request));
    BOOST_REQUIRE(run_until(loop, [&] { return client.ended; }));
    return client.reply;
  }

  Loop loop = make_loop();
  bool own = true;  ///< requests now come from this machine
  std::vector<ControlRequest> asked;
  std::unique_ptr<Control> control;
};

bool starts_with_code(const std::string& reply, int code) {
  return reply.starts_with("HTTP/1.1 " + std::to_string(code) + " ");
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(control_port, Fixture)

BOOST_AUTO_TEST_CASE(a_get_is_served_with_its_length) {
  const std::string reply = ask("GET /status HTTP/1.1\r\nHost: 127.0.0.1:7\r\n\r\n");
  BOOST_TEST(starts_with_code(reply, 200));
  BOOST_TEST(reply.find("Content-Length: 11\r\n") != std::string::npos);
  BOOST_TEST(reply.ends_with("\r\n\r\nget /status"));
}

BOOST_AUTO_TEST_CASE(a_post_is_served_whatever_its_body_says) {
  const std::string reply = ask("POST /leave HTTP/1.1\r\nContent-Length: 3\r\n\r\nnow");
  BOOST_TEST(reply.ends_with("post /leave"));
  BOOST_REQUIRE(asked.size() == 1U);
  BOOST_TEST(asked[0].post);
}

BOOST_AUTO_TEST_CASE(a_request_that_comes_byte_by_byte_is_served) {
  for (const std::string_view request : {"POST /x?y HTTP/1.1\r\nHost: localhost\r\n\r\n",
                                         "POST /x HTTP/1.1\r\nContent-Length: 3\r\n\r\nnow"}) {
    HttpClient client(loop, control->address(), "");
    BOOST_REQUIRE(run_until(loop, [&] { return client.connected; }));
    for (std::size_t at = 0; at < request.size(); ++at) {
      BOOST_TEST(client.reply.empty());
      client.say(request.substr(at, 1));
      loop.run_once();
    }
    BOOST_TEST(run_until(loop, [&] { return client.ended; }));
    BOOST_TEST(client.reply.ends_with("post /x"), client.reply);
  }
}

BOOST_AUTO_TEST_CASE(pages_in_a_browser_are_refused) {
  for (const std::string header : {"Origin: https://example.org", "ORIGIN: null",
                                   "Host: example.org:7", "Host: 127.0.0.1:7\r\nOrigin:"}) {
    BOOST_TEST(starts_with_code(ask("POST /leave HTTP/1.1\r\n" + header + "\r\n\r\n"), 403));
  }
  BOOST_TEST(asked.empty());
  BOOST_TEST(starts_with_code(ask("POST /leave HTTP/1.1\r\nhost: localhost\r\n\r\n"), 200));
}

BOOST_AUTO_TEST_CASE(a_port_of_both_families_is_one_of_ipv4_too) {
  Fixture both(":0");
  BOOST_TEST(both.control->address().starts_with("127.0.0.1:"));
  BOOST_TEST(starts_with_code(both.ask("GET /status HTTP/1.1\r\n\r\n"), 200));
}

BOOST_AUTO_TEST_CASE(a_host_in_brackets_is_an_address_or_nothing) {
  Fixture open("0.0.0.0:0");
  const auto code_for = [&](const std::string& host) {
    return open.ask("GET /metrics HTTP/1.1\r\nHost: " + host + "\r\n\r\n").substr(9, 3);
  };
  for (const char* ours : {"[::1]:9", "[2001:db8::1]:9", "[::1]"}) {
    BOOST_TEST(code_for(ours) == "200", ours);
  }
  for (const char* others : {"[example.org]:9", "[example.org", "[example.org]"}) {
    BOOST_TEST(code_for(others) == "403", others);
  }
}

BOOST_AUTO_TEST_CASE(a_port_that_others_reach_answers_them_but_takes_no_orders) {
  Fixture open("0.0.0.0:0");
  BOOST_TEST(open.control->address().starts_with("127.0.0.1:"));
  const auto code_of = [&](const std::string& request, const std::string& headers) {
    return open.ask(request + " HTTP/1.1\r\n" + headers + "\r\n\r\n").substr(9, 3);
  };
  BOOST_TEST(code_of("GET /metrics", "Host: 10.0.0.1:9") == "200");
  BOOST_TEST(code_of("GET /metrics", "Host: example.org") == "403");  // may be made to lead here
  BOOST_TEST(code_of("GET /", "Origin: null") == "403");
  BOOST_TEST(code_of("POST /leave", "Host: localhost\r\nSec-Fetch-Site: same-origin") == "403");
  BOOST_TEST(open.asked.size() == 1U);
  BOOST_TEST(code_of("POST /leave", "Host: 10.0.0.1:9") == "200");
  open.own = false;
  BOOST_TEST(code_of("GET /metrics", "Host: 10.0.0.1:9") == "200");
  const std::string refused = open.ask("POST /leave HTTP/1.1\r\nHost: 10.0.0.1:9\r\n\r\n");
  BOOST_TEST(refused.ends_with("{\"error\":\"only for programs on this machine\"}\n"));
  BOOST_TEST(open.asked.size() == 3U);
}

// A request that others read differently may get past them.
BOOST_AUTO_TEST_CASE(a_header_that_can_be_read_in_two_ways_is_refused) {
  for (const std::string header :
       {"Host: localhost\r\nHost: example.org", "Host: local\r\nHost: host", "Host : example.org",
        "Content-Length: 0\r\nContent-Length: 5", "Content-Length: +1",
        "Content-Length: 0\r\nTransfer-Encoding: chunked", "X: a\nb", "X: a\rb"}) {
    BOOST_TEST(starts_with_code(ask("GET / HTTP/1.1\r\n" + header + "\r\n\r\n"), 400), header);
  }
  BOOST_TEST(asked.empty());
}

BOOST_AUTO_TEST_CASE(a_query_is_passed_over) {
  BOOST_TEST(ask("GET /?a=1 HTTP/1.1\r\n\r\n").ends_with("get /"));
  BOOST_TEST(ask("GET /status?x HTTP/1.1\r\n\r\n").ends_with("get /status"));
}

BOOST_AUTO_TEST_CASE(a_head_is_answered_as_a_get_without_its_body) {
  const std::string reply = ask("HEAD /status HTTP/1.1\r\n\r\n");
  BOOST_TEST(starts_with_code(reply, 200));
  BOOST_TEST(reply.find("Content-Length: 11\r\n") != std::string::npos);
  BOOST_TEST(reply.ends_with("\r\n\r\n"));
  BOOST_REQUIRE(asked.size() == 1U);
  BOOST_TEST(!asked[0].post);
}

// As browsers write it, no matter what is typed.
BOOST_AUTO_TEST_CASE(a_host_name_is_the_same_in_capitals) {
  std::string name(256, '\0');
  BOOST_REQUIRE(gethostname(name.data(), name.size()) == 0);
  name.resize(name.find('\0'));
  std::string capitals = name;
  std::ranges::transform(capitals, capitals.begin(), [](unsigned char c) { return toupper(c); });
  std::string small = name;
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return tolower(c); });
  const std::string hosts[] = {capitals, small, "LocalHost:7", "localhost.:7"};
  for (const std::string& host : hosts) {
    BOOST_TEST(starts_with_code(ask("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n"), 200));
  }
}

BOOST_AUTO_TEST_CASE(an_answer_tells_a_browser_what_it_is_and_to_load_nothing_else) {
  const std::string reply = ask("GET / HTTP/1.1\r\n\r\n");
  BOOST_TEST(reply.find("\r\nContent-Type: text/plain\r\n") != std::string::npos);
  BOOST_TEST(reply.find("\r\nContent-Security-Policy: default-src 'none'; ") != std::string::npos);
  BOOST_TEST(reply.find("\r\nX-Content-Type-Options: nosniff\r\n") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_address_that_cannot_be_had_is_an_error) {
  for (const char* address : {"127.0.0.1", "127.0.0.1:70000", "192.0.2.1:0"}) {
    BOOST_TEST(!Control::create(loop, address, {}));
  }
  const auto taken = Control::create(loop, control->address(), {});
  BOOST_REQUIRE(!taken);
  BOOST_TEST(taken.error().text.find(control->address()) != std::string::npos);
}

BOOST_AUTO_TEST_CASE(other_methods_are_refused) {
  for (const std::string method : {"DELETE", "CONNECT", "get", "MADE-UP"}) {
    BOOST_TEST(starts_with_code(ask(method + " /status HTTP/1.1\r\n\r\n"), 405), method);
  }
  BOOST_TEST(asked.empty());
}

BOOST_AUTO_TEST_CASE(garbage_is_refused) {
  const std::string all[] = {
      "\r\n\x01\x02garbage\r\n\r\n", std::string(100, '\0'),   "GET\r\n\r\n",
      "GET / HTTP/9.x\r\n\r\n",      "GET / HTTP/2.0\r\n\r\n", "GET /\r\n\r\n"};
  for (const std::string& garbage : all) BOOST_TEST(starts_with_code(ask(garbage), 400));
  BOOST_TEST(asked.empty());
  BOOST_TEST(starts_with_code(ask("GET / HTTP/1.1\r\n\r\n"), 200));  // it goes on
}

BOOST_AUTO_TEST_CASE(a_request_that_is_too_long_is_cut_off) {
  const auto request_of = [](std::size_t bytes) {
    const std::string end = " HTTP/1.1\r\n\r\n";
    const std::string begin = "GET /";
    return begin + std::string(bytes - begin.size() - end.size(), 'a') + end;
  };
  BOOST_TEST(starts_with_code(ask(request_of(Control::kRequestMax)), 200));
  BOOST_TEST(asked.size() == 1U);
  BOOST_TEST(starts_with_code(ask(request_of(Control::kRequestMax + 1)), 431));
  // Unread bytes may turn the answer into a reset.
  const std::string reply = ask(request_of(4 * Control::kRequestMax));
  BOOST_TEST((reply.empty() || starts_with_code(reply, 431)));
  BOOST_TEST(asked.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_body_without_a_length_or_too_long_is_refused_before_it_comes) {
  const std::string request = "POST /leave HTTP/1.1\r\n";
  for (const char* length : {"8193", "4611686018427387904"}) {
    const std::string header = std::string("Content-Length: ") + length + "\r\n\r\n";
    BOOST_TEST(starts_with_code(ask(request + header), 413), length);
  }
  for (const char* coding : {"chunked", "gzip"}) {
    const std::string header = std::string("Transfer-Encoding: ") + coding + "\r\n\r\n";
    BOOST_TEST(starts_with_code(ask(request + header + "0\r\n\r\n"), 411), coding);
  }
  BOOST_TEST(asked.empty());
}

BOOST_AUTO_TEST_CASE(requests_behind_the_first_are_not_served) {
  const std::string reply = ask("GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\n");
  BOOST_TEST(reply.ends_with("get /1"));
  BOOST_TEST(asked.size() == 1U);
}

BOOST_AUTO_TEST_CASE(more_clients_than_it_takes_are_turned_away) {
  std::vector<std::unique_ptr<HttpClient>> silent;
  for (std::size_t i = 0; i < Control::kConnectionsMax + 1; ++i) {
    silent.push_back(std::make_unique<HttpClient>(loop, control->address(), ""));
  }
  const auto ended = [&] {
    std::size_t count = 0;
    for (const auto& client : silent) count += client->ended ? 1 : 0;
    return count;
  };
  BOOST_TEST(run_until(loop, [&] { return ended() == 1; }));
  control->close();
  BOOST_TEST(run_until(loop, [&] { return ended() == silent.size(); }));
}

BOOST_AUTO_TEST_CASE(strangers_leave_room_for_this_machine) {
  own = false;
  std::vector<std::unique_ptr<HttpClient>> strangers;
  for (std::size_t i = 0; i < Control::kConnectionsMax; ++i) {
    strangers.push_back(std::make_unique<HttpClient>(loop, control->address(), ""));
  }
  const auto ended = [&] {
    return static_cast<std::size_t>(
        std::ranges::count_if(strangers, [](const auto& client) { return client->ended; }));
  };
  BOOST_TEST(run_until(loop, [&] { return ended() == Control::kOwnConnections; }));
  own = true;
  BOOST_TEST(ask("GET / HTTP/1.1\r\n\r\n").ends_with("get /"));
  BOOST_TEST(ended() == Control::kOwnConnections);
}

BOOST_AUTO_TEST_SUITE_END()
