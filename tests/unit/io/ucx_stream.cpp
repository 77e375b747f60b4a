#include "io/ucx_stream.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <iterator>
#include <mutex>
#include <set>
#include <thread>

#include <boost/test/unit_test.hpp>
#include <linux/filter.h>
#include <sys/socket.h>

#include "harness.hpp"
#include "io/address.hpp"
#include "io/ucx_listener.hpp"

using namespace starling;
using namespace starling::io;
using namespace starling::io::test;

namespace {

/// A worker with at most one stream, and nothing above it.
struct Side {
  explicit Side(Loop& loop)
      : worker(UcxWorker::create(loop, "lo", [this] { return turn ? turn() : false; }).value()),
        streams(std::make_unique<UcxStreams>(*worker)) {}
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  ~Side() {
    if (!stream) return;
    stream->abort();
    while (!stream->closed()) worker->progress();
  }

  std::function<bool()> turn;
  std::unique_ptr<UcxWorker> worker;
  std::unique_ptr<UcxStreams> streams;
  std::unique_ptr<UcxStream> stream;
};

struct Pair {
  Pair() : server(loop), client(loop) {
    sockaddr_in any{};
    uv_ip4_addr("127.0.0.1", 0, &any);
    listener = UcxListener::create(*server.worker, any).value();
    server.turn = [this] {
      for (const auto& request : listener->take_requests()) {
        server.stream = UcxStream::accept(*server.streams, request.handle).value();
      }
      return false;
    };
    const HostPort target = parse_address(listener->address()).value();
    uv_ip4_addr(target.host.c_str(), target.port, &any);
    client.stream = UcxStream::connect(*client.streams, any).value();
    client.stream->send(base::Buffer(1));
    BOOST_REQUIRE(run_until(loop, [&] { return server.stream && server.stream->readable(); }));
    static_cast<void>(server.stream->take());
  }

  Loop loop = make_loop();
  Side server;
  Side client;
  std::unique_ptr<UcxListener> listener;
};

/// An active message as no stream would send it. Its buffers live as long as this.
struct RawMessage {
  std::array<std::uint32_t, 2> header{};
  base::Buffer data;
};

/// This process's sockets that listen for TCP connections.
std::set<int> listening_sockets() {
  std::set<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename());
    int listens = 0;
    socklen_t size = sizeof listens;
    if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0) {
      found.insert(descriptor);
    }
  }
  return found;
}

/// Drops all packets to some sockets, as a firewall does, until it is lifted or `patience` is over.
class Firewall {
 public:
  Firewall(std::set<int> sockets, base::Duration patience)
      : sockets_(std::move(sockets)), guard_([this, patience] {
          std::unique_lock lock(mutex_);
          expired_ = !lifted_.wait_for(lock, patience, [this] { return lift_; });
          attached(SO_DETACH_FILTER);
        }) {
    attached(SO_ATTACH_FILTER);
  }
  Firewall(const Firewall&) = delete;
  Firewall& operator=(const Firewall&) = delete;
  ~Firewall() { static_cast<void>(lift()); }

  /// Whether it stood until now.
  bool lift() {
    {
      const std::lock_guard lock(mutex_);
      lift_ = true;
    }
    lifted_.notify_all();
    if (guard_.joinable()) guard_.join();
    return !expired_;
  }

 private:
  void attached(int how) {
    sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
    const sock_fprog program{1, &drop};
    for (const int socket : sockets_) setsockopt(socket, SOL_SOCKET, how, &program, sizeof program);
  }

  std::set<int> sockets_;
  std::mutex mutex_;
  std::condition_variable lifted_;
  bool lift_ = false;
  bool expired_ = false;
  std::thread guard_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(ucx_stream)

// Which end dials the other one's data port depends on their addresses, and NAT or a firewall may
// be in the way: here of both.
BOOST_AUTO_TEST_CASE(a_port_that_drops_everything_does_not_stop_the_loop) {
  Loop loop = make_loop();
  const std::set<int> before = listening_sockets();
  Side server(loop);
  Side client(loop);
  std::set<int> data_ports;
  std::ranges::set_difference(listening_sockets(), before,
                              std::inserter(data_ports, data_ports.end()));
  BOOST_REQUIRE(data_ports.size() == 2U);
  sockaddr_in at{};
  uv_ip4_addr("127.0.0.1", 0, &at);
  const auto listener = UcxListener::create(*server.worker, at).value();
  server.turn = [&] {
    for (const auto& request : listener->take_requests()) {
      server.stream = UcxStream::accept(*server.streams, request.handle).value();
    }
    return false;
  };
  const HostPort target = parse_address(listener->address()).value();
  uv_ip4_addr(target.host.c_str(), target.port, &at);
  Firewall firewall(data_ports, kPatience / 4);

  client.stream = UcxStream::connect(*client.streams, at).value();
  client.stream->send(base::Buffer(1));
  BOOST_REQUIRE(run_until(loop, [&] { return server.stream != nullptr; }));
  // Its connect has begun, and the loop goes on.
  int turns = 0;
  Timer tick(loop, [&] {
    ++turns;
    tick.start(std::chrono::milliseconds(1));
  });
  tick.start(std::chrono::milliseconds(1));
  BOOST_TEST(run_until(loop, [&] { return turns >= 100; }));
  BOOST_TEST(!server.stream->readable());
  BOOST_TEST(firewall.lift());
}

BOOST_AUTO_TEST_CASE(nothing_follows_the_first_message_before_it_is_complete) {
  Loop loop = make_loop();
  Side side(loop);
  sockaddr_in nobody{};
  uv_ip4_addr("127.0.0.1", 9, &nobody);
  side.stream = UcxStream::connect(*side.streams, nobody).value();
  BOOST_TEST(side.stream->writable() == kMessageMax);
  side.stream->send(base::Buffer(1));
  BOOST_TEST(side.stream->writable() == 0U);
  BOOST_TEST(!side.stream->send_end());
}

BOOST_AUTO_TEST_CASE(a_sender_stops_at_the_window_until_the_reader_takes) {
  Pair pair;
  UcxStream& from = *pair.client.stream;
  UcxStream& to = *pair.server.stream;
  std::size_t sent = 0;
  const auto fill = [&] {
    while (const std::size_t room = from.writable()) {
      from.send(base::Buffer(room));
      sent += room;
    }
  };
  BOOST_REQUIRE(run_until(pair.loop, [&] {
    fill();
    return from.unconsumed() + kMessageCost >= kWindow;
  }));
  BOOST_TEST(sent <= kWindow);
  BOOST_TEST(from.writable() == 0U);
  std::size_t taken = 0;
  BOOST_TEST(run_until(pair.loop, [&] {
    fill();
    while (to.readable()) taken += to.take().size();
    to.send_credit();
    return taken > 4 * kWindow;
  }));
  BOOST_TEST((from.failure() == UcxStream::Failure::none));
}

BOOST_AUTO_TEST_CASE(end_comes_after_all_data) {
  Pair pair;
  UcxStream& from = *pair.client.stream;
  UcxStream& to = *pair.server.stream;
  BOOST_REQUIRE(run_until(pair.loop, [&] { return from.writable() > 0; }));
  for (int i = 0; i < 10; ++i) from.send(base::Buffer(50'000));
  BOOST_TEST(from.send_end());
  BOOST_TEST(from.writable() == 0U);
  int messages = 0;
  BOOST_TEST(run_until(pair.loop, [&] {
    while (to.readable()) {
      BOOST_TEST(!to.ended());
      static_cast<void>(to.take());
      ++messages;
    }
    return to.ended();
  }));
  BOOST_TEST(messages == 10);
}

// Each rule of the stream, broken by a hostile sender that speaks to UCX directly.
struct Breach {
  const char* name;
  std::uint32_t first_number;  // of a run of messages with rising numbers
  std::uint32_t credit;
  std::size_t size;
  std::size_t count;
  UcxStream::Failure expected;
};

BOOST_AUTO_TEST_CASE(a_sender_that_breaks_a_rule_is_found_out) {
  const std::array breaches{
      Breach{"ignores its credit", 1, 0, kMessageMax, 32, UcxStream::Failure::overflow},
      Breach{"floods with tiny messages", 1, 0, 1, 5000, UcxStream::Failure::overflow},
      Breach{"skips a number", 2, 0, 100, 1, UcxStream::Failure::protocol},
      Breach{"repeats a number", 0, 0, 100, 1, UcxStream::Failure::protocol},
      Breach{"sends too much at once", 1, 0, kMessageMax + 1, 1, UcxStream::Failure::protocol},
      Breach{"takes credit for what was not sent", 1, 5, 100, 1, UcxStream::Failure::protocol},
  };
  for (const Breach& breach : breaches) {
    BOOST_TEST_CONTEXT(breach.name) {
      Loop loop = make_loop();
      Side server(loop);
      sockaddr_in any{};
      uv_ip4_addr("127.0.0.1", 0, &any);
      auto listener = UcxListener::create(*server.worker, any).value();
      server.turn = [&] {
        for (const auto& request : listener->take_requests()) {
          server.stream = UcxStream::accept(*server.streams, request.handle).value();
        }
        return false;
      };
      const HostPort target = parse_address(listener->address()).value();
      uv_ip4_addr(target.host.c_str(), target.port, &any);
      std::deque<RawMessage> messages;  // outlives the worker that sends them
      auto hostile = UcxWorker::create(loop, "lo", [] { return false; }).value();
      ucp_ep_params_t endpoint_params{};
      endpoint_params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
                                   UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
      endpoint_params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
      endpoint_params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
      endpoint_params.sockaddr = {reinterpret_cast<const sockaddr*>(&any), sizeof any};
      ucp_ep_h endpoint = nullptr;
      BOOST_REQUIRE(ucp_ep_create(hostile->raw(), &endpoint_params, &endpoint) == UCS_OK);
      std::size_t in_flight = 0;
      const auto post = [&](std::uint32_t number, std::uint32_t credit, std::size_t size) {
        RawMessage& message = messages.emplace_back();
        message.header = {number, credit};
        message.data.resize(size);
        ucp_request_param_t param{};
        param.op_attr_mask =
            UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
        param.flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY;
        param.user_data = &in_flight;
        param.cb.send = [](void* request, ucs_status_t, void* count) {
          --*static_cast<std::size_t*>(count);
          ucp_request_free(request);
        };
        const auto request = ucp_am_send_nbx(endpoint, 1, message.header.data(), kMessageHeaderSize,
                                             message.data.data(), size, &param);
        if (UCS_PTR_IS_PTR(request)) ++in_flight;
      };
      post(0, 0, 10);
      BOOST_REQUIRE(run_until(loop, [&] { return server.stream && server.stream->readable(); }));
      static_cast<void>(server.stream->take());
      for (std::uint32_t i = 0; i < breach.count; ++i) {
        post(breach.first_number + i, breach.credit, breach.size);
      }
      BOOST_TEST(
          run_until(loop, [&] { return server.stream->failure() != UcxStream::Failure::none; }));
      BOOST_TEST((server.stream->failure() == breach.expected));
      ucp_request_param_t force{};
      force.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
      force.flags = UCP_EP_CLOSE_FLAG_FORCE;
      const auto closing = ucp_ep_close_nbx(endpoint, &force);
      while (in_flight > 0 ||
             (UCS_PTR_IS_PTR(closing) && ucp_request_check_status(closing) == UCS_INPROGRESS)) {
        hostile->progress();
      }
      if (UCS_PTR_IS_PTR(closing)) ucp_request_free(closing);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
